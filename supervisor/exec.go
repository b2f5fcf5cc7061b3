package supervisor

import (
	"context"
	"errors"
	"time"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest"
)

const (
	// execLimit is how long a guest may take to start a command: a process is
	// made in milliseconds, and a slow disk may have to be read for it.
	execLimit = 15 * time.Second
	// execGrace is what a command has between SIGTERM and SIGKILL if it does
	// not say, as in guest.Command.
	execGrace = 5 * time.Second
	// endSlack is how long after that its end is waited for.
	endSlack = 5 * time.Second
)

// use returns the guest, started if need be, and has it count as used until unuse.
func (s *Supervisor) use(ctx context.Context) (Guest, error) {
	for {
		if err := s.do(ctx, Exec, CauseDemand); err != nil {
			return nil, err
		}
		s.mu.Lock()
		if s.status.State == Running {
			g := s.guest
			s.busy++
			s.touch()
			s.mu.Unlock()
			return g, nil
		}
		s.mu.Unlock() // somebody stopped it in this moment
	}
}

func (s *Supervisor) unuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.lastUsed = time.Now()
	s.touch()
}

// errLate is why a command's context ended.
var errLate = errors.New("the guest does not answer")

// process is a command that ends for its caller, whatever the guest does.
type process struct {
	Process
	context context.Context
	name    string
}

// execute starts a command in a guest that may fall silent at any moment.
// After the process has ended, release must be called.
func execute(ctx context.Context, g Guest, cmd guest.Command) (p Process, release func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(execLimit, func() { cancel(errLate) })
	started, err := g.Exec(ctx, cmd)
	switch {
	case !late.Stop() && context.Cause(ctx) == errLate:
		// If it was started after all, the end of the context ends it.
		return nil, nil, lateFault(cmd.Args)
	case err != nil:
		cancel(nil)
		return nil, nil, err
	}
	if cmd.Timeout > 0 {
		grace := cmd.Grace
		if grace == 0 {
			grace = execGrace
		}
		late = time.AfterFunc(cmd.Timeout+grace+endSlack, func() { cancel(errLate) })
	}
	return &process{started, ctx, cmd.Args[0]}, func() { late.Stop(); cancel(nil) }, nil
}

func lateFault(args []string) error {
	return fault.New(fault.Timeout, "run command", args[0], errLate).Advise("See `osaurus-sandbox status`; a silent guest is started again by itself.")
}

// Wait implements Process.
func (p *process) Wait() (guest.Exit, error) {
	exit, err := p.Process.Wait()
	if err != nil && context.Cause(p.context) == errLate {
		err = lateFault([]string{p.name})
	}
	return exit, err
}
