package machine

import (
	"context"
	"fmt"
	"time"

	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
)

const (
	// infoEvery is how often the guest is asked how it is, and how long it may take to say.
	infoEvery = 10 * time.Second

	// sleepCheck is how often it is looked whether the host slept, sleepSize
	// how long it must have slept to be worth an event.
	sleepCheck = time.Second
	sleepSize  = 5 * time.Second
)

// watch sees the machine's end.
func (s *Machine) watch(g Guest) {
	select {
	case <-g.Done():
	case <-s.life.Done():
		return
	}
	if err := g.Close(); err != nil {
		s.log.Warn("what the machine left could not be cleared away", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guest != g || s.op != nil {
		return // an operation ended it, and says what follows
	}
	age := time.Since(s.status.StartedAt)
	s.lose()
	switch {
	case !s.status.State.HasGuest(): // it did not end when it was to
		s.touch()
		return
	case g.Err() == nil:
		if age < settled {
			s.failures.count++ // or whoever wants a guest starts it for ever
		}
		s.set(Stopped, CauseGuest, nil)
		return
	}
	s.set(Failed, CauseWatchdog, g.Err())
	s.revive(Start, age)
}

// lose forgets the guest, and what is known of it. If it answered for long enough, what
// failed before is past. The mutex is held.
func (s *Machine) lose() {
	if s.status.AnsweredAt.Sub(s.status.StartedAt) >= settled {
		s.failures = failures{}
	}
	s.guest, s.last = nil, s.guest
	s.status.StartedAt, s.status.AnsweredAt, s.status.Guest, s.status.GuestAt = time.Time{}, time.Time{}, nil, time.Time{}
}

// revive begins to start a guest again that has failed, if the settings say so
// and it has not failed too often. It need not cool down: it did boot. The
// mutex is held.
func (s *Machine) revive(c Command, age time.Duration) {
	if age < settled {
		s.failures.count++
	}
	if s.settings.AutoRestart && !s.closing && s.failures.allow() {
		s.begin(c, CauseWatchdog)
	}
}

// attend asks the guest again and again whether it is there, and beside that how it is,
// until its machine ends.
func (s *Machine) attend(g Guest) {
	life, stop := context.WithCancel(s.life)
	defer stop()
	s.work.Go(func() {
		select {
		case <-g.Done():
			stop()
		case <-life.Done():
		}
	})
	s.work.Go(func() { s.inquire(life, g) })
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	var ear hearing
	for life.Err() == nil {
		err := ping(life, g, ear.ask(time.Now()))
		now, still := time.Now(), g.Standstill()
		if err == nil {
			ear.heard(now)
			s.heard(g, now)
		} else if still != nil {
			ear.heard(now) // as well as it could be: its silence counts from when it goes on
			s.stands(g, still)
		} else if silent := ear.missed(now); silent >= silence {
			s.missed(g, silent, ear.patience(g.Waited()), err)
		}
		select {
		case <-tick.C:
		case <-life.Done():
		}
	}
}

// inquire asks a guest again and again how it is. One that cannot say is not silent: to be
// there it needs less than what it tells of.
func (s *Machine) inquire(ctx context.Context, g Guest) {
	tick := time.NewTicker(infoEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		asking, cancel := context.WithTimeout(ctx, infoEvery)
		info, err := g.Info(asking)
		cancel()
		if err == nil {
			s.learn(g, info, time.Now())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// learn takes note of how a guest is.
func (s *Machine) learn(g Guest, info guest.Info, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guest == g {
		s.status.Guest, s.status.GuestAt = &info, now
		s.touch()
	}
}

// ping asks a guest whether it is there.
func ping(ctx context.Context, g Guest, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return g.Ping(ctx)
}

// heard takes note of a guest that has answered.
func (s *Machine) heard(g Guest, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guest != g {
		return
	}
	s.status.AnsweredAt = now
	if s.op != nil || s.closing {
		return
	}
	if s.status.State == Unresponsive {
		s.set(Running, CauseWatchdog, nil)
	}
	if at := s.idleStop(); !at.IsZero() && !now.Before(at) {
		s.begin(Stop, CauseIdle)
	}
}

// missed takes note of a guest that has been silent for too long, and has it started again
// once its patience is over.
func (s *Machine) missed(g Guest, silent, patience time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guest != g || s.op != nil {
		return
	}
	if s.status.State == Running {
		advice := "Start it again: `osaurus-sandbox restart`."
		if s.settings.AutoRestart && s.failures.allow() {
			advice = fmt.Sprintf("Unless it recovers, it is started again after %v, or later where this computer has no processor for it.", recovery)
		}
		s.set(Unresponsive, CauseWatchdog, fault.Newf(fault.Timeout, "", "", "the guest has not answered for %v: %w", silent.Round(time.Second), err).Advise(advice))
	}
	if silent >= patience && s.settings.AutoRestart && s.failures.allow() {
		s.revive(Restart, time.Since(s.status.StartedAt)-silent)
	}
}

// stands takes note of a guest that cannot answer since its machine stands still. It is not started
// again, which would help nobody: the machine goes on by itself.
func (s *Machine) stands(g Guest, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guest == g && s.op == nil && s.status.State == Running {
		s.set(Unresponsive, CauseHost, why)
	}
}

// idleStop is when the guest is to be stopped because nobody uses it, or zero.
// The mutex is held.
func (s *Machine) idleStop() time.Time {
	if s.settings.IdleStopMinutes == 0 || s.status.State != Running || s.busy > 0 {
		return time.Time{}
	}
	return s.lastUsed.Add(time.Duration(s.settings.IdleStopMinutes) * time.Minute)
}

// watchHost notices that the host slept. The guest's clock is set by whoever
// keeps it.
func (s *Machine) watchHost() {
	tick := time.NewTicker(sleepCheck)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-tick.C:
		case <-s.life.Done():
			return
		}
		now := time.Now()
		if gap := unlived(last, now, now.Sub(last)); gap >= sleepSize {
			s.note(Event{Kind: HostSlept, Cause: CauseHost, Detail: gap.Round(time.Second).String()})
		}
		last = now
	}
}

// unlived is how much wall time passed that was not lived through: the
// monotonic clock stands still while a computer sleeps.
func unlived(last, now time.Time, lived time.Duration) time.Duration {
	return now.Round(0).Sub(last.Round(0)) - lived
}
