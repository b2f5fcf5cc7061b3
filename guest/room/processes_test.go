//go:build linux

package room

import (
	"strings"
	"testing"
	"time"
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
