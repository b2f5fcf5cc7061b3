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

// TestCommandLineThatHangs checks that a list waits a limited time for a command line, and that all
// lists together block one thread.
func TestCommandLineThatHangs(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		hang, reads := make(chan struct{}), new(atomic.Int32)
		lines := newCommandLines()
		lines.read = func(pid int32) []byte {
			if pid == 2 {
				reads.Add(1)
				<-hang
			}
			return fmt.Appendf(nil, "line %d", pid)
		}
		list := func() (commands string) {
			var all []*guestpb.RoomProcess
			for pid, state := range []string{"R", "D", "S", "S"} {
				all = append(all, &guestpb.RoomProcess{Pid: int32(pid), State: state, Command: []byte("[name]")})
			}
			began := time.Now()
			if lines.fill(all, time.Second); time.Since(began) > time.Second {
				t.Errorf("it took %v", time.Since(began))
			}
			for _, p := range all {
				commands += string(p.Command) + ","
			}
			return commands
		}
		for _, want := range []string{"line 0,[name],[name],[name],", "[name],[name],[name],[name],"} {
			if got := list(); got != want || reads.Load() != 1 {
				t.Errorf("%s after %d reads, want %s", got, reads.Load(), want)
			}
		}
		close(hang)
		timetest.Wait()
		if got := list(); got != "line 0,[name],line 2,line 3," {
			t.Error(got)
		}
	})
}

// FuzzParseStat checks that a process's name does not change its other fields.
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
