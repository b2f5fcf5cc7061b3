//go:build linux

package process

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
)

// spot is a place that counts who enters.
type spot struct {
	entered *atomic.Int32
	ended   chan struct{}
	refuse  error
}

func (s spot) Enter() error {
	s.entered.Add(1)
	return s.refuse
}
func (spot) Credential() *syscall.Credential { return nil }
func (spot) Cgroup() string                  { return "" }
func (s spot) Ended() <-chan struct{}        { return s.ended }

func TestPorters(t *testing.T) {
	before := runtime.NumGoroutine()
	k, err := NewKeeper(Options{})
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	run := func(p Place) error {
		c, err := k.Start(Spec{Args: []string{"/bin/sh", "-c", "exit 3"}, Dir: "/", Files: [3]uintptr{null.Fd(), null.Fd(), null.Fd()}, Place: p})
		if err != nil {
			return err
		}
		<-c.Done()
		if c.Status().ExitStatus() != 3 {
			t.Errorf("status %v", c.Status())
		}
		return nil
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lasting := spot{entered: new(atomic.Int32), ended: make(chan struct{})}
	for range 3 {
		must(run(lasting))
	}
	if n := lasting.entered.Load(); n != 1 {
		t.Errorf("one after another, they entered %d times", n)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := run(lasting); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	// Nothing stays in a place that has ended, and nothing starts by who was there.
	close(lasting.ended)
	for k.kept() > 0 {
		time.Sleep(time.Millisecond)
	}
	if err := run(lasting); err != nil && fault.KindOf(err) != fault.Unavailable {
		t.Error(err)
	}
	changing := spot{entered: new(atomic.Int32)}
	for range 3 {
		must(run(changing))
	}
	if n := changing.entered.Load(); n != 3 {
		t.Errorf("a place that changes was entered %d times", n)
	}
	closed := errors.New("closed")
	if err := run(spot{entered: new(atomic.Int32), ended: make(chan struct{}), refuse: closed}); fault.KindOf(err) != fault.Unavailable || !errors.Is(err, closed) {
		t.Errorf("a place that cannot be entered: %v", err)
	}
	must(run(spot{entered: new(atomic.Int32), ended: make(chan struct{})})) // stays until Close
	k.Close()
	for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before+1 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before+1 { // the runtime's own for signals stays
		t.Errorf("%d goroutines, %d before", n, before)
	}
}

// TestDesertedTooLate: a porter that is gone is not counted among those who wait for nobody: it would
// be for good.
func TestDesertedTooLate(t *testing.T) {
	k, err := NewKeeper(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	r := k.hire(spot{entered: new(atomic.Int32), refuse: errors.New("closed")}, nil)
	<-r.gone
	if k.desert(r) || k.stuck != 0 {
		t.Errorf("%d wait for nobody", k.stuck)
	}
}

// kept is how many porters wait for work.
func (k *Keeper) kept() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.porters)
}
