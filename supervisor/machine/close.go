package machine

import (
	"context"
	"errors"
)

// Close stops the guest, gently as long as the context allows. Waiting calls fail.
// A second Close does nothing.
func (s *Machine) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return nil
	}
	s.closing = true
	if s.op != nil {
		s.op.cancel(interrupted{Stop})
	}
	s.touch()
	s.mu.Unlock()

	err := s.do(ctx, Stop, CauseClose)
	s.end() // whatever is still under way ends now
	s.mu.Lock()
	op := s.op
	s.mu.Unlock()
	if op != nil {
		<-op.done
	}
	s.mu.Lock()
	g := s.guest
	s.mu.Unlock()
	if g != nil {
		err = errors.Join(err, g.Close())
	}
	s.work.Wait()
	return err
}
