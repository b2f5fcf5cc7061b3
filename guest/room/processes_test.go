//go:build linux

package room

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/timetest"
)

func TestParseStat(t *testing.T) {
	line := "42 (a) R 1 (b) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 1000 4096 3 18446744073709551615"
	booted := time.Unix(1000, 0)
	p := parseStat(line, booted)
	if p == nil || p.Ppid != 7 || p.State != "S" || string(p.Command) != "[a) R 1 (b]" || p.CpuNanos != int64(2*time.Second) ||
		p.ResidentBytes == 0 || p.StartedUnixNano != booted.Add(10*time.Second).UnixNano() {
		t.Errorf("%+v", p)
	}
	for _, bad := range []string{"", "1 (x", ") (", "1 (x) S 1"} {
		if p := parseStat(bad, booted); p != nil {
			t.Errorf("%q: %+v", bad, p)
		}
	}
}

// TestCommandLineThatHangs: the command line of a program that does not let it be read is waited for a
// moment, by all lists together on one thread; the others come.
func TestCommandLineThatHangs(t *testing.T) {
	// What is read in time takes no time, and what is not is waited for in vain.
	const ample, brief, busy = 5 * time.Second, 100 * time.Millisecond, time.Minute
	hang, reads := make(chan struct{}), new(atomic.Int32)
	lines := newCommandLines()
	lines.read = func(pid int32) []byte {
		if pid == 2 {
			reads.Add(1)
			<-hang
		}
		return fmt.Appendf(nil, "line %d", pid)
	}
	list := func(within time.Duration) (commands string) {
		var all []*guestpb.RoomProcess
		for pid, state := range []string{"R", "D", "S", "S"} {
			all = append(all, &guestpb.RoomProcess{Pid: int32(pid), State: state, Command: []byte("[name]")})
		}
		began := time.Now()
		lines.fill(all, within)
		if took := time.Since(began); took > busy {
			t.Errorf("it took %v", took)
		}
		for _, p := range all {
			commands += string(p.Command) + ","
		}
		return commands
	}
	if got := list(ample); got != "line 0,[name],[name],[name]," {
		t.Error(got)
	}
	for range 2 {
		if got := list(brief); got != "[name],[name],[name],[name]," {
			t.Error(got)
		}
	}
	if n := reads.Load(); n != 1 {
		t.Errorf("%d threads read it", n)
	}
	close(hang)
	timetest.Eventually(t, "all command lines come", func() bool { return list(brief) == "line 0,[name],line 2,line 3," })
}

// FuzzParseStat: whatever a process calls itself, it is no other process.
func FuzzParseStat(f *testing.F) {
	f.Add("x")
	f.Add(") Z 1 (")
	f.Fuzz(func(t *testing.T, name string) {
		if strings.Contains(name, "\x00") {
			return
		}
		p := parseStat("42 ("+name+") S 7 42 42 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 1000 4096 3 0", time.Unix(0, 0))
		if p == nil || p.Ppid != 7 || p.State != "S" || string(p.Command) != "["+name+"]" {
			t.Errorf("%q: %+v", name, p)
		}
	})
}
