package vmtest

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// settle is how long what a closed machine leaves may take to unwind.
const settle = 5 * time.Second

// leaks remembers how many goroutines and descriptors there were.
type leaks struct{ goroutines, files int }

func watchLeaks(t *testing.T) leaks { return leaks{runtime.NumGoroutine(), openFiles(t)} }

func (l leaks) check(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(settle); ; time.Sleep(20 * time.Millisecond) {
		now := watchLeaks(t)
		if now.goroutines <= l.goroutines && now.files <= l.files {
			return
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			t.Errorf("goroutines: %d before, %d after; files: %d before, %d after %v\n%s", l.goroutines, now.goroutines, l.files, now.files, fileNames(), stacks)
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
