package machine

import (
	"context"
	"errors"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/internal/progress"
)

// stopLimit bounds a gentle stop. Its steps have limits of their own, which
// add up to much less.
const stopLimit = time.Minute

// stopGuest stops the guest, if there is one.
func (s *Machine) stopGuest(op *operation) error {
	s.mu.Lock()
	g := s.guest
	s.mu.Unlock()
	if g == nil {
		return nil
	}
	var err error
	if op.silent {
		err = g.Close() // it would not react to a gentle stop
	} else {
		ctx, cancel := context.WithTimeout(op.context, stopLimit)
		err = g.Shutdown(ctx)
		cancel()
	}
	if !notify.Closed(g.Done()) {
		return fault.New(fault.Execution, "stop guest", "", errors.Join(errors.New("its machine does not end"), err)).
			Advise("Try again: `osaurus-sandbox down`.")
	}
	if err != nil {
		s.log.Warn("the guest did not power off by itself", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose()
	return nil
}

// vacate fails if the last machine was killed but is not gone: it may still
// write to its disk.
func (s *Machine) vacate(op *operation) error {
	s.mu.Lock()
	g := s.last
	s.mu.Unlock()
	if g == nil {
		return nil
	}
	if err := g.Close(); err != nil && g.Err() != nil {
		return fault.Newf(fault.Execution, string(op.command), "", "the last machine may still use the disk: %w", err).Advise(fault.AdviceOf(g.Err()))
	}
	return nil
}

// makeReady prepares a boot, without booting.
func (s *Machine) makeReady(op *operation) error {
	settings, err := s.reload()
	if err != nil {
		return err
	}
	return s.prepare(op, settings, true, s.track())
}

// startGuest prepares missing parts and boots. A boot that fails is tried
// once more with everything verified.
func (s *Machine) startGuest(op *operation) error {
	settings, err := s.reload()
	if err != nil {
		return err
	}
	tracker := s.track()
	fresh := op.command == Provision || op.command == Reset
	if fresh || !s.backend.Ready(settings) {
		s.enter(op, Provisioning)
	}
	if err := s.prepare(op, settings, fresh, tracker); err != nil {
		return err
	}
	s.enter(op, Starting)
	g, m, err := s.backend.Boot(op.context, settings, tracker)
	if err != nil && op.context.Err() == nil {
		s.log.Warn("the first boot failed, everything is checked before the second", "error", err)
		tracker = s.track()
		if again := s.prepare(op, settings, true, tracker); again != nil {
			return errors.Join(err, again)
		}
		g, m, err = s.backend.Boot(op.context, settings, tracker)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.guest, s.lastUsed = g, now
	s.status.Machine, s.status.StartedAt, s.status.AnsweredAt = &m, now, now
	return nil
}

// prepare checks the host, if necessary, and makes missing parts.
func (s *Machine) prepare(op *operation, settings config.Settings, fresh bool, tracker *progress.Tracker) error {
	s.mu.Lock()
	unchecked := fresh || s.status.Accelerator == ""
	s.mu.Unlock()
	if unchecked {
		accelerator, err := s.backend.Check(op.context)
		s.mu.Lock()
		s.status.Accelerator, op.unfit = accelerator, err != nil
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return s.backend.Prepare(op.context, settings, fresh, tracker)
}

// reload reads the settings, which may have been edited by hand.
func (s *Machine) reload() (config.Settings, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	file, err := config.Load(s.home.SettingsFile())
	if err != nil {
		return config.Settings{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings = file.Settings()
	return s.settings, nil
}
