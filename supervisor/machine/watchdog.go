package machine

import (
	"context"
	"fmt"
	"time"

	"osaurus-sandbox/internal/fault"
)

const (
	// pingEvery is the interval between pings of the guest.
	pingEvery = time.Second
	// pingLimit is how long a guest may take to answer, so that a silent one counts
	// as unresponsive within five seconds. A healthy guest answers in milliseconds,
	// an emulated one on a busy host in seconds.
	pingLimit = 5*time.Second - pingEvery
	// recovery is how long a silent guest has before it is restarted. A paused
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

// watch waits for the machine's end, then stops attend and inquire.
func (s *Machine) watch(life context.Context, stop context.CancelFunc, g Guest) {
	defer stop()
	select {
	case <-g.Done():
	case <-life.Done():
		return
	}
	stop()
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
	case !s.status.State.HasGuest(): // it had already been told to stop
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
		s.begin(c, CauseWatchdog, nil)
	}
}

// every calls f, at once and then at an interval, until life ends.
func every(life context.Context, interval time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for life.Err() == nil {
		f()
		select {
		case <-tick.C:
		case <-life.Done():
		}
	}
}

// attend pings the guest.
func (s *Machine) attend(life context.Context, g Guest) {
	var silent time.Duration
	every(life, pingEvery, func() {
		asked := time.Now()
		asking, cancel := context.WithTimeout(life, pingLimit)
		err := g.Ping(asking)
		cancel()
		took := time.Since(asked)
		switch why := g.Stalled(); {
		case err == nil:
			silent = 0
			s.heard(g, time.Now())
		case why != nil:
			silent = 0 // counts from when the machine goes on
			s.stalled(g, why)
		case took < pingLimit+stall: // else this process was stopped
			silent += max(took, pingEvery)
			s.missed(g, silent, err)
		}
	})
}

// inquire asks the guest for its state from time to time. A guest that fails to
// tell but answers pings is not silent.
func (s *Machine) inquire(life context.Context, g Guest) {
	every(life, infoEvery, func() {
		asking, cancel := context.WithTimeout(life, infoEvery)
		defer cancel()
		info, err := g.Info(asking)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil && s.guest == g {
			s.status.Guest, s.status.GuestAt = info, time.Now()
			s.touch()
		}
	})
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
		s.begin(Stop, CauseIdle, nil)
	}
}

// missed marks a guest as unresponsive that has been silent for too long, and
// restarts it when it does not recover.
func (s *Machine) missed(g Guest, silent time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guest != g || s.op != nil || silent < pingLimit {
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

// idleStop returns when the guest will be stopped as idle, or zero.
// The mutex is held.
func (s *Machine) idleStop() time.Time {
	if s.settings.IdleStopMinutes == 0 || s.status.State != Running || s.busy > 0 {
		return time.Time{}
	}
	return s.lastUsed.Add(time.Duration(s.settings.IdleStopMinutes) * time.Minute)
}

// watchHost notices that the host slept.
func (s *Machine) watchHost() {
	last := time.Now()
	every(s.life, sleepCheck, func() {
		now := time.Now()
		if gap := unlived(last, now, now.Sub(last)); gap >= sleepSize {
			s.note(HostSlept, CauseHost, map[string]string{"detail": gap.Round(time.Second).String()})
		}
		last = now
	})
}

// unlived returns the wall time that passed beyond lived: the monotonic clock
// stops while a computer sleeps.
func unlived(last, now time.Time, lived time.Duration) time.Duration {
	return now.Round(0).Sub(last.Round(0)) - lived
}
