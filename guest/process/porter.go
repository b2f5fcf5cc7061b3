//go:build linux

package process

import (
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

// ended is when a place ends that porters stay for; nil if they do not.
func ended(p Place) <-chan struct{} {
	if l, ok := p.(Lasting); ok {
		return l.Ended()
	}
	return nil
}

// hire returns a porter whose thread has entered a place, and works there until stop.
func (k *Keeper) hire(p Place, stop <-chan struct{}) (*porter, error) {
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
		r.serve(stop)
		k.mu.Lock()
		defer k.mu.Unlock()
		if stop != nil && k.porters[p] == r {
			delete(k.porters, p)
		}
	}()
	return r, <-entered
}

func (r *porter) serve(stop <-chan struct{}) {
	defer close(r.gone)
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
		case <-stop:
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
	var r *porter
	stop := ended(p)
	if stop != nil {
		k.mu.Lock()
		r = k.porters[p]
		delete(k.porters, p) // it has one task at a time
		k.mu.Unlock()
	}
	var err error
	work := func() { err = f() }
	if r == nil || !r.do(work) {
		var failed error
		if r, failed = k.hire(p, stop); failed != nil {
			return failed
		}
		if !r.do(work) {
			return fault.Newf(fault.Unavailable, "enter place", "", "it has ended")
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if stop != nil && k.porters[p] == nil && !k.closed && !r.left() {
		k.porters[p] = r
	} else {
		close(r.work) // there is another already, or none is to stay
	}
	return err
}

// left reports whether the porter takes no more work.
func (r *porter) left() bool {
	select {
	case <-r.gone:
		return true
	default:
		return false
	}
}
