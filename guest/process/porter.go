//go:build linux

package process

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"osaurus-sandbox/internal/fault"
)

// porter is a thread that has entered a place and starts children there, one at a
// time. To enter takes as long as to start, so it stays for the next child.
type porter struct {
	work  chan func()
	gone  chan struct{} // closed when it takes no more work
	err   error         // why, after gone
	stuck bool          // nobody waits for it any more; guarded by the keeper's lock
}

// porterIdle is how long a porter waits for more work. It costs a thread, and its
// place is not quite gone before it is.
const porterIdle = time.Minute

// maxStuck bounds the threads that wait for a share and for nobody. Whoever starts more waits with
// them, in one of the few starts of a room: the runtime ends a process of ten thousand threads.
const maxStuck = 256

// ended is when a place ends that porters stay for; nil if they do not.
func ended(p Place) <-chan struct{} {
	if l, ok := p.(Lasting); ok {
		return l.Ended()
	}
	return nil
}

// hire returns a porter whose thread enters a place, and works there until stop.
func (k *Keeper) hire(p Place, stop <-chan struct{}) *porter {
	r := &porter{work: make(chan func()), gone: make(chan struct{})}
	go func() {
		// Never unlocked: the runtime ends the thread with the goroutine. What
		// the first thread of a process enters it would keep, so PID 1 keeps
		// that for its main goroutine.
		runtime.LockOSThread()
		err := p.Enter()
		if err == nil {
			r.serve(stop)
			err = errors.New("it has ended")
		}
		r.err = fault.New(fault.Unavailable, "enter place", "", err)
		close(r.gone)
		k.mu.Lock()
		defer k.mu.Unlock()
		if stop != nil && k.porters[p] == r {
			delete(k.porters, p)
		}
		if r.stuck {
			k.stuck--
		}
	}()
	return r
}

func (r *porter) serve(stop <-chan struct{}) {
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

// onEntered runs look and then, unless that fails, fork on a thread that has entered the place of
// what is to start. To enter and to look may wait for a share, and onEntered does so no longer than
// the keeper has patience: then fork is not run.
func (k *Keeper) onEntered(s Spec, look, fork func() error) error {
	p := s.Place
	over := time.NewTimer(k.patience)
	defer over.Stop()
	done := make(chan error, 1)
	var decided atomic.Bool // that it forks, or that nobody waits any more
	work := func() {
		err := look()
		if !decided.CompareAndSwap(false, true) {
			return
		}
		if err == nil {
			err = fork()
		}
		done <- err
	}
	stop := ended(p)
	r, err := k.handOver(work, s, stop, over.C)
	if err != nil {
		return err
	}
	select {
	case err = <-done:
	case <-over.C:
		if k.desert(r) && decided.CompareAndSwap(false, true) {
			return s.late(k.patience)
		}
		err = <-done
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case r.stuck:
	case stop != nil && k.porters[p] == nil && !k.closed && !r.left():
		k.porters[p] = r
	default:
		close(r.work) // there is another already, or none is to stay
	}
	return err
}

// handOver gives work to a porter who has nothing to do, or to a new one.
func (k *Keeper) handOver(work func(), s Spec, stop <-chan struct{}, over <-chan time.Time) (*porter, error) {
	p, r := s.Place, (*porter)(nil)
	if stop != nil {
		k.mu.Lock()
		r = k.porters[p]
		delete(k.porters, p) // it has one task at a time
		k.mu.Unlock()
	}
	if r != nil {
		select {
		case r.work <- work:
			return r, nil
		case <-r.gone:
		}
	}
	for r = k.hire(p, stop); ; {
		select {
		case r.work <- work:
			return r, nil
		case <-r.gone:
			return nil, r.err
		case <-over:
			if k.desert(r) {
				return nil, s.late(k.patience)
			}
		}
	}
}

// desert leaves a porter alone with what it waits for, if it still does and not too many are so
// already. It takes no more work.
func (k *Keeper) desert(r *porter) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.left() || k.stuck >= maxStuck {
		return false
	}
	k.stuck++
	r.stuck = true
	close(r.work)
	return true
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
