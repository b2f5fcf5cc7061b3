//go:build linux

package process

import (
	"errors"
	"runtime"
	"time"

	"osaurus-sandbox/fault"
)

// porter is a thread that has entered a place and starts children there, one at a
// time. To enter takes as long as to start, so it stays for the next child.
type porter struct {
	work chan func()
	gone chan struct{} // closed when it takes no more work
}

// porterIdle is how long a porter waits for more work. It costs a thread, and its
// place is not quite gone before it is.
const porterIdle = time.Minute

// hire returns a porter whose thread has entered a place.
func (k *Keeper) hire(p Place) (*porter, error) {
	r := &porter{work: make(chan func()), gone: make(chan struct{})}
	entered := make(chan error, 1)
	go func() {
		// Never unlocked: the runtime ends the thread with the goroutine. What
		// the first thread of a process enters it would keep, so PID 1 keeps
		// that for its main goroutine.
		runtime.LockOSThread()
		if err := p.Enter(); err != nil {
			entered <- fault.New(fault.Unavailable, "enter place", "", err)
			return
		}
		entered <- nil
		r.serve(p)
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.porters[p] == r {
			delete(k.porters, p)
		}
	}()
	return r, <-entered
}

func (r *porter) serve(p Place) {
	defer close(r.gone)
	var dead <-chan struct{} // nil: never
	if m, ok := p.(Mortal); ok {
		dead = m.Dead()
	}
	idle := time.NewTimer(porterIdle)
	defer idle.Stop()
	for {
		select {
		case f, more := <-r.work:
			if !more {
				return
			}
			f()
			idle.Reset(porterIdle)
		case <-dead:
			return
		case <-idle.C:
			return
		}
	}
}

// do runs f on the porter's thread, and reports whether the porter was still there.
func (r *porter) do(f func()) bool {
	done := make(chan struct{})
	select {
	case r.work <- func() { defer close(done); f() }:
		<-done
		return true
	case <-r.gone:
		return false
	}
}

// onEntered runs f on a thread that has entered the place.
func (k *Keeper) onEntered(p Place, f func() error) error {
	k.mu.Lock()
	r := k.porters[p]
	delete(k.porters, p) // it has one task at a time
	k.mu.Unlock()
	var err error
	work := func() { err = f() }
	if r == nil || !r.do(work) {
		var failed error
		if r, failed = k.hire(p); failed != nil {
			return failed
		}
		if !r.do(work) {
			return fault.New(fault.Unavailable, "enter place", "", errors.New("it has ended"))
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-r.gone:
	default:
		if k.porters[p] == nil && !k.closed {
			k.porters[p] = r
			return err
		}
		close(r.work) // another is there already
	}
	return err
}
