//go:build linux

package pid1

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// What nobody waits for is done after all else, and what somebody waits for is not, whoever
// comes first.
func TestBackground(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives back the niceness that it took")
	}
	niceness := func() int {
		raw, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid()) // of this thread
		if err != nil {
			t.Error(err)
		}
		return 20 - raw // as the kernel has it
	}
	warn := func(what string, err error) { t.Errorf("%s: %v", what, err) }
	b := newBackground()
	before, awaited, after := make(chan int), make(chan bool), make(chan int)
	go b.do(func() {
		before <- niceness()
		<-awaited
		after <- niceness()
	}, warn)
	if got := <-before; got != lowest {
		t.Errorf("while nobody waits it is %d", got)
	}
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		b.wait()
	}()
	for awaiting := false; !awaiting; {
		b.mu.Lock()
		awaiting = b.awaited
		b.mu.Unlock()
	}
	close(awaited)
	if got := <-after; got != usual {
		t.Errorf("while somebody waits it is %d", got)
	}
	<-waiting

	b = newBackground()
	b.awaited = true // by who came before it began
	own := niceness()
	go b.do(func() { after <- niceness() }, warn)
	if got := <-after; got != own {
		t.Errorf("what was waited for before is %d", got)
	}
	b.wait()
}
