package sessions

import (
	"context"
	"maps"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/machine"
)

const (
	// saveLimit is how long a guest may take to hand out what is to be kept of
	// an agent: it has it in memory.
	saveLimit = 5 * time.Second
	// saveAgain is the pause after a guest or the database had no time for that. It grows,
	// twice as long each time, to saveSeldom.
	saveAgain  = 3 * time.Second
	saveSeldom = time.Minute
	// attachedEvery is how often the transcript of a session is kept that a
	// person is attached to: what a daemon that is killed may lose of it.
	attachedEvery = 2 * time.Second
)

// scribe keeps the transcripts of sessions that were used, and tells which have
// begun and which are closed, while nobody waits for it.
type scribe struct {
	*Terminals
	wake    chan struct{} // has room for one: something is due
	done    chan struct{}
	writing chan struct{} // holds one token, for who changes what is kept

	mu   sync.Mutex // held for moments only
	due  map[place]use
	open map[place]opened
	// ending counts who is closing a session: they tell of its end themselves.
	ending map[place]int
}

// use is who used a session last.
type use struct {
	agent agents.Agent
	by    machine.Cause
}

// place is a session of an agent.
type place struct {
	uid uint32
	id  config.SessionID
}

// opened is a session that is known to be open.
type opened struct {
	in   machine.Guest
	made time.Time
}

func newScribe(t *Terminals) *scribe {
	s := &scribe{
		Terminals: t, wake: make(chan struct{}, 1), done: make(chan struct{}), writing: make(chan struct{}, 1),
		due: map[place]use{}, open: map[place]opened{}, ending: map[place]int{},
	}
	s.writing <- struct{}{}
	go s.write()
	return s
}

// used notes that a session was used.
func (s *scribe) used(agent agents.Agent, id config.SessionID, by machine.Cause) {
	s.mu.Lock()
	s.due[place{agent.UID, id}] = use{agent, by}
	s.mu.Unlock()
	s.rouse()
}

// rouse has what is due be kept.
func (s *scribe) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *scribe) write() {
	defer close(s.done)
	var pause time.Duration
	var again <-chan time.Time // never
	for {
		select {
		case <-s.wake:
		case <-again:
		case <-s.life.Done():
			return
		}
		err := s.saveAll()
		if err == nil {
			pause, again = 0, nil
			continue
		}
		if pause == 0 {
			s.Log.Warn("transcripts are kept later", "error", err)
		}
		pause = min(max(2*pause, saveAgain), saveSeldom)
		again = time.After(pause)
	}
}

// close keeps what is due.
func (s *scribe) close() {
	<-s.done
	if err := s.saveAll(); err != nil {
		s.Log.Warn("the last of some transcripts is not kept", "error", err)
	}
}

// saveAll keeps what is due. What the guest or the database has no time for stays due, and
// the error says why.
func (s *scribe) saveAll() (late error) {
	s.mu.Lock()
	due := s.due
	s.due = map[place]use{}
	s.mu.Unlock()
	if len(due) == 0 {
		return nil
	}
	vm := s.Machines.Shared()
	l, ok := vm.Peek()
	if !ok {
		return nil // and with the guest all that it had
	}
	defer l.Release()
	for p, last := range due {
		if vm.Silent() {
			late = guest.ErrSilent
			break
		}
		err := s.save(l, p, last)
		switch kind := fault.KindOf(err); {
		case err == nil, kind == fault.NotFound: // it was closed meanwhile
		case kind == fault.Timeout:
			late = err
			continue
		default:
			s.Log.Warn("a transcript is not kept", "agent", last.agent.Name, "session", p.id, "error", err)
		}
		delete(due, p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(due, s.due) // who used one since is who used it last
	s.due = due
	return late
}

// save keeps what a session has shown, without the agent's secrets.
func (s *scribe) save(l *machine.Lease, p place, last use) error {
	ctx, cancel := context.WithTimeout(context.Background(), saveLimit)
	defer cancel()
	secrets := s.Agents.Redact(ctx, last.agent)
	return s.turn(ctx, func() error {
		// Within the turn, or a session that is closed after it was listed would be told to have begun anew.
		list, err := l.Room(last.agent.User).Sessions(ctx)
		if err != nil {
			return err
		}
		s.compare(l.Guest, last, p.id, list)
		text, _, err := l.Room(last.agent.User).Transcript(ctx, p.id)
		if err != nil {
			return err
		}
		return s.kept.save(ctx, p.uid, p.id, redactTranscript(secrets.Scrubber(), text))
	})
}

// turn does something while nobody else changes what is kept.
func (s *scribe) turn(ctx context.Context, do func() error) error {
	select {
	case <-s.writing:
	case <-ctx.Done():
		return fault.Newf(fault.KindOf(ctx.Err()), "keep transcript", "", "another one is still being kept")
	}
	defer func() { s.writing <- struct{}{} }()
	return do()
}

// compare tells what has changed about the sessions of an agent since they
// were listed last. Of those, one was just used. The turn is the caller's.
func (s *scribe) compare(in machine.Guest, last use, id config.SessionID, list []engine.Session) {
	now := map[place]opened{}
	for _, session := range list {
		id, err := config.ParseSessionID(session.ID)
		if err == nil && session.User == string(last.agent.User) {
			now[place{last.agent.UID, id}] = opened{in, session.Made}
		}
	}
	var began, ended []config.SessionID
	s.mu.Lock()
	for p, was := range s.open {
		if p.uid != last.agent.UID || was == now[p] || s.ending[p] > 0 {
			continue
		}
		delete(s.open, p)
		if was.in == in { // the end of a guest is an event of its own
			ended = append(ended, p.id)
		}
	}
	for p, is := range now {
		if s.open[p] != is && s.ending[p] == 0 {
			s.open[p] = is
			began = append(began, p.id)
		}
	}
	s.mu.Unlock()
	for _, id := range ended {
		s.note(SessionClosed, machine.CauseGuest, last.agent, map[string]string{"session": string(id)})
	}
	for _, began := range began {
		cause := machine.CauseGuest
		if began == id {
			cause = last.by
		}
		s.note(SessionStarted, cause, last.agent, map[string]string{"session": string(began)})
	}
}

// ends has nothing be told of a session while somebody closes it, until done is called.
func (s *scribe) ends(p place) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending[p]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ending[p]--; s.ending[p] == 0 {
			delete(s.ending, p)
		}
	}
}

// closed notes that a session was closed on purpose.
func (s *scribe) closed(agent agents.Agent, id config.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.due, place{agent.UID, id})
	delete(s.open, place{agent.UID, id})
}
