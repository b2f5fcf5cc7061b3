//go:build linux

package pid1

import (
	"testing"
	"time"
)

// stuck is a console that nobody reads.
type stuck struct{ written, over chan struct{} }

func (s stuck) Write(b []byte) (int, error) {
	close(s.written)
	<-s.over
	return len(b), nil
}

// Who asks how the machine is does not wait for the console.
func TestInfoBesideAStuckConsole(t *testing.T) {
	console := stuck{make(chan struct{}), make(chan struct{})}
	defer close(console.over)
	m := newMachine()
	m.console = console
	go m.log("a line")
	<-console.written
	told := make(chan struct{})
	go func() { m.Info(); close(told) }()
	select {
	case <-told:
	case <-time.After(30 * time.Second):
		t.Error("it waits")
	}
}
