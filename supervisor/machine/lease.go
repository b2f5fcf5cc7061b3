package machine

import (
	"context"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
)

// Lease is the use of a running guest. Until it is released, the guest is not
// stopped as idle; it may still end at any moment. Two leases of the same boot
// have the same Guest.
type Lease struct {
	Guest
	machine *Machine
	peek    bool // does not reset the idle timer
	once    sync.Once
}

// Acquire leases the guest and starts it if necessary.
func (s *Machine) Acquire(ctx context.Context) (*Lease, error) {
	for {
		if err := s.do(ctx, Exec, CauseDemand, nil); err != nil {
			return nil, err
		}
		if l, ok := s.acquireRunning(); ok {
			return l, nil
		} // it was stopped in between
	}
}

// acquireRunning leases the guest if one runs, also while it does not answer.
func (s *Machine) acquireRunning() (*Lease, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.status.State.HasGuest() {
		return nil, false
	}
	return s.lease(s.guest), true
}

// Peek leases the guest if one runs, also while it does not answer. It does not reset the idle timer.
func (s *Machine) Peek() (*Lease, bool) {
	l, ok := s.acquireRunning()
	if ok {
		l.peek = true
	}
	return l, ok
}

// lease makes a lease. The mutex is held.
func (s *Machine) lease(g Guest) *Lease {
	s.busy++
	s.touch()
	return &Lease{Guest: g, machine: s}
}

// Release ends the lease. It may be called more than once.
func (l *Lease) Release() {
	l.once.Do(func() {
		s := l.machine
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy--
		if !l.peek {
			s.lastUsed = time.Now()
		}
		s.touch()
	})
}

// Exec starts a command in a room. The command has a lease of its own.
func (l *Lease) Exec(ctx context.Context, user config.LinuxUser, cmd engine.Command) (engine.Process, error) {
	p, err := l.Room(user).Exec(ctx, cmd)
	if err != nil {
		return nil, err
	}
	s := l.machine
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.lease(l.Guest)
	follow := func() {
		<-p.Done()
		own.Release()
	}
	if s.life.Err() == nil {
		s.work.Go(follow)
	} else {
		go follow() // Close waits already, and WaitGroup.Add is not allowed then
	}
	return p, nil
}

// Silent reports whether the guest runs but does not answer.
func (s *Machine) Silent() bool { return s.Status().State == Unresponsive }
