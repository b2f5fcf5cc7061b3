package processtest

import (
	"fmt"
	"os"
	"testing"
)

// Flood writes into a process's standard output, as another that has got hold of it, until
// nobody reads that any more.
func Flood(t testing.TB, pid int) {
	t.Helper()
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", pid), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		var err error
		for b := make([]byte, 1<<20); err == nil; {
			_, err = f.Write(b)
		}
	}()
	t.Cleanup(func() { _ = f.Close(); <-over })
}
