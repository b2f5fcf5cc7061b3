package vmtest

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// settle is how long goroutines and descriptors of a closed machine may take to end.
const settle = 30 * time.Second

// leaks counts goroutines and descriptors.
type leaks struct{ goroutines, files int }

// watchLeaks counts what is there. Until the test ends nothing is collected, since Go closes a lost
// file when it collects it.
func watchLeaks(t *testing.T) leaks {
	runtime.GC()
	percent := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	return leaks{runtime.NumGoroutine(), openFiles(t)}
}

func stacks() string {
	b := make([]byte, 4<<20)
	return string(b[:runtime.Stack(b, true)])
}

func (l leaks) check(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(settle); ; time.Sleep(20 * time.Millisecond) {
		now := leaks{runtime.NumGoroutine(), openFiles(t)}
		if now.goroutines <= l.goroutines && now.files <= l.files {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("goroutines: %d before, %d after; files: %d before, %d after %v\n%s", l.goroutines, now.goroutines, l.files, now.files, fileNames(), stacks())
			return
		}
	}
}

// openFiles counts this process's descriptors. Linux and macOS list them.
func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func fileNames() string {
	entries, _ := os.ReadDir("/dev/fd")
	var names []string
	for _, e := range entries {
		if to, err := os.Readlink("/dev/fd/" + e.Name()); err == nil {
			names = append(names, to)
		}
	}
	return strings.Join(names, " ")
}
