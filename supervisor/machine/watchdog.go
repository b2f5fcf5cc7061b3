package machine

import (
	"context"
	"fmt"
	"time"

	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
)

const (
	// pingEvery is the interval between pings of the guest.
	pingEvery = time.Second
	// silence is after how long without an answer a guest counts as unresponsive.
	// A healthy guest answers in milliseconds, an emulated one on a busy host in
	// seconds.
	silence = 5 * time.Second
	// recovery is after how long without an answer a guest is restarted. A paused
	// machine or a swapping host is back before, and nothing is lost.
	recovery = 30 * time.Second
	// stall is how late a timer must fire to show that this process itself was
	// stopped, and could not hear the guest.
	stall = time.Second

	// infoEvery is the interval between requests for the guest's state, and their
	// time limit.
	infoEvery = 10 * time.Second

	// sleepCheck is how often the watchdog looks whether the host slept, sleepSize
	// the shortest sleep that is worth an event.
	sleepCheck = time.Second
	sleepSize  = 5 * time.Second
)

// watch waits for the machine's end.
func (s *Machine) watch(g Guest) {
	select {
	case <-g.Done():
	case <-s.life.Done():
		return
	}
	if err := g.Close(); err != nil {
		s.log.Warn("cannot clean up after the machine", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guest != g || s.op != nil {
		return // an operation ended it
	}
	age := time.Since(s.status.StartedAt)
	s.lose()
	switch {
	case !s.status.State.HasGuest(): // it was to end before, and did not
		s.touch()
		return
	case g.Err() == nil:
		if age < settled {
			s.failures.count++ // else it would be restarted for ever
		}
		s.set(Stopped, CauseGuest, nil)
		return
	}
	s.set(Failed, CauseWatchdog, g.Err())
	s.revive(Start, age)
}

// lose forgets the guest. If it ran for long enough, earlier failures are
// forgiven. The mutex is held.
func (s *Machine) lose() {
	if s.status.AnsweredAt.Sub(s.status.StartedAt) >= settled {
		s.failures = failures{}
	}
	s.guest, s.last = nil, s.guest
	s.status.StartedAt, s.status.AnsweredAt, s.status.Guest, s.status.GuestAt = time.Time{}, time.Time{}, nil, time.Time{}
}

// revive restarts a guest that has failed, if the settings say so and it has not
// failed too often. The mutex is held.
func (s *Machine) revive(c Command, age time.Duration) {
	if age < settled {
		s.failures.count++
	}
	if s.settings.AutoRestart && !s.closing && s.failures.allow() {
		s.begin(c, CauseWatchdog)
	}
}

// attend pings the guest and asks for its state until its machine ends.
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
	answered, over := time.Now(), time.Now()
	for life.Err() == nil {
		asked := time.Now()
		if asked.Sub(over) > pingEvery+stall {
			answered = asked // this process was stopped
		}
		limit := silence - asked.Sub(answered)
		if limit <= 0 {
			limit = silence
		}
		err := ping(life, g, limit)
		over = time.Now()
		if over.Sub(asked) > limit+stall {
			answered = over
		}
		if err == nil {
			answered = over
			s.heard(g, over)
		} else if why := g.Stalled(); why != nil {
			answered = over // its silence counts from when it goes on
			s.stalled(g, why)
		} else if silent := over.Sub(answered); silent >= silence {
			s.missed(g, silent, err)
		}
		select {
		case <-tick.C:
		case <-life.Done():
		}
	}
}

// inquire asks the guest for its state from time to time. A guest that fails to
// tell but answers pings is not silent.
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

// learn records the guest's state.
func (s *Machine) learn(g Guest, info guest.Info, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guest == g {
		s.status.Guest, s.status.GuestAt = &info, now
		s.touch()
	}
}

// ping waits for an answer of the guest.
func ping(ctx context.Context, g Guest, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return g.Ping(ctx)
}

// heard records that the guest has answered.
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

// missed marks a guest as unresponsive that has been silent for too long, and
// restarts it when it does not recover.
func (s *Machine) missed(g Guest, silent time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guest != g || s.op != nil {
		return
	}
	if s.status.State == Running {
		advice := "Restart it: `osaurus-sandbox restart`."
		if s.settings.AutoRestart && s.failures.allow() {
			advice = fmt.Sprintf("Unless it recovers, it is restarted after %v.", recovery)
		}
		s.set(Unresponsive, CauseWatchdog, fault.Newf(fault.Timeout, "", "", "the guest has not answered for %v: %w", silent.Round(time.Second), err).Advise(advice))
	}
	if silent >= recovery && s.settings.AutoRestart && s.failures.allow() {
		s.revive(Restart, time.Since(s.status.StartedAt)-silent)
	}
}

// stalled marks a guest as unresponsive whose machine is stalled. It is not
// restarted: the machine goes on by itself when the cause is gone.
func (s *Machine) stalled(g Guest, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guest == g && s.op == nil && s.status.State == Running {
		s.set(Unresponsive, CauseHost, why)
	}
}

// idleStop returns when the guest is to be stopped as idle, or zero.
// The mutex is held.
func (s *Machine) idleStop() time.Time {
	if s.settings.IdleStopMinutes == 0 || s.status.State != Running || s.busy > 0 {
		return time.Time{}
	}
	return s.lastUsed.Add(time.Duration(s.settings.IdleStopMinutes) * time.Minute)
}

// watchHost notices that the host slept.
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

// unlived returns the wall time that passed beyond lived: the monotonic clock
// stops while a computer sleeps.
func unlived(last, now time.Time, lived time.Duration) time.Duration {
	return now.Round(0).Sub(last.Round(0)) - lived
}
