package machine

import (
	"context"
	"sync"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// deathSlack is how much later than a connection the machine may be seen to
// have ended that broke it.
const deathSlack = time.Second

// Loan is a guest that runs, in use: until it is returned, it is not stopped
// for want of use. It may still end at any moment. Two loans of the same boot
// have the same Guest.
type Loan struct {
	Guest
	supervisor *Machine
	visit      bool // it is no use
	once       sync.Once
}

// Borrow lends the guest, and starts it if need be. It must be returned.
func (s *Machine) Borrow(ctx context.Context) (*Loan, error) {
	for {
		if err := s.do(ctx, Exec, CauseDemand); err != nil {
			return nil, err
		}
		if l, ok := s.BorrowRunning(); ok {
			return l, nil
		} // somebody stopped it in this moment
	}
}

// BorrowRunning lends the guest if one runs, also while it does not answer: it may
// recover, and then all that was in it still is. The questions that are asked through the loan
// have limits of their own, and so take as long as those in a guest that is silent.
func (s *Machine) BorrowRunning() (*Loan, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.status.State.HasGuest() {
		return nil, false
	}
	return s.lend(s.guest), true
}

// Visit is BorrowRunning for what is no use of the guest, however often: one that is only
// visited is stopped for want of use.
func (s *Machine) Visit() (*Loan, bool) {
	l, ok := s.BorrowRunning()
	if ok {
		l.visit = true
	}
	return l, ok
}

// lend makes a loan. The mutex is held.
func (s *Machine) lend(g Guest) *Loan {
	s.busy++
	s.touch()
	return &Loan{Guest: g, supervisor: s}
}

// Return gives the guest back. A second Return does nothing.
func (l *Loan) Return() { l.once.Do(l.unuse) }

func (l *Loan) unuse() {
	s := l.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	if !l.visit {
		s.lastUsed = time.Now()
	}
	s.touch()
}

// Exec starts a command. It is as Supervisor.Exec, in this guest; the command
// is a loan of its own.
func (l *Loan) Exec(ctx context.Context, cmd engine.Command) (Process, error) {
	p, release, err := execute(ctx, l.Guest, cmd)
	if err != nil {
		return nil, err
	}
	s := l.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.lend(l.Guest)
	follow := func() {
		<-p.Done()
		release()
		own.Return()
	}
	if s.life.Err() == nil {
		s.work.Go(follow)
	} else {
		go follow() // it ends with the guest, and nobody may join those whom Close waits for
	}
	return p, nil
}

// Explain says what is behind the error of a call to the guest, if that is that
// its machine has ended.
func (l *Loan) Explain(ctx context.Context, op, subject string, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return ended(l.Done(), op, subject, err)
}

// ended says that a machine has ended if that is what broke a connection.
func ended(over <-chan struct{}, op, subject string, err error) error {
	if kind := fault.KindOf(err); kind != fault.Execution && kind != fault.Unavailable && kind != fault.Timeout {
		return err // it is the guest's answer
	}
	select {
	case <-over:
		return fault.Newf(fault.Unavailable, op, subject, "the machine ended before it did").
			Advise("See `osaurus-sandbox status` for why; then run it again.")
	case <-time.After(deathSlack):
		return err
	}
}
