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
	// saveLimit is how long a guest may take to return a transcript.
	saveLimit = 5 * time.Second
	// saveAgain is the first pause after a failed save. It doubles each time,
	// up to saveAgainMax.
	saveAgain    = 3 * time.Second
	saveAgainMax = time.Minute
	// attachedEvery is how often the transcript of a session with an attached
	// person is saved.
	attachedEvery = 2 * time.Second
)

// recorder saves the transcripts of used sessions in the background, and
// records which sessions began and ended.
type recorder struct {
	*Terminals
	wake    chan struct{} // buffered; a token means that something is due
	done    chan struct{}
	writing chan struct{} // holds one token: the right to change saved transcripts

	mu   sync.Mutex // held for moments only
	due  map[place]use
	open map[place]opened
	// ending counts callers of CloseSession, who record the end themselves.
	ending map[place]int
}

// use is the last use of a session.
type use struct {
	agent agents.Agent
	by    machine.Cause
}

// place identifies a session of an agent.
type place struct {
	uid uint32
	id  config.SessionID
}

// opened is a session that is known to be open.
type opened struct {
	in   machine.Guest
	made time.Time
}

func newRecorder(t *Terminals) *recorder {
	s := &recorder{
		Terminals: t, wake: make(chan struct{}, 1), done: make(chan struct{}), writing: make(chan struct{}, 1),
		due: map[place]use{}, open: map[place]opened{}, ending: map[place]int{},
	}
	s.writing <- struct{}{}
	go s.write()
	return s
}

// used notes that a session was used.
func (s *recorder) used(agent agents.Agent, id config.SessionID, by machine.Cause) {
	s.mu.Lock()
	s.due[place{agent.UID, id}] = use{agent, by}
	s.mu.Unlock()
	s.rouse()
}

// rouse wakes the writer.
func (s *recorder) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *recorder) write() {
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
			s.Log.Warn("transcripts will be saved later", "error", err)
		}
		pause = min(max(2*pause, saveAgain), saveAgainMax)
		again = time.After(pause)
	}
}

// close saves what is due.
func (s *recorder) close() {
	<-s.done
	if err := s.saveAll(); err != nil {
		s.Log.Warn("some transcripts were not saved", "error", err)
	}
}

// saveAll saves what is due. On an error the rest stays due.
func (s *recorder) saveAll() (late error) {
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
		return nil // its sessions ended with the guest
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
			s.Log.Warn("a transcript was not saved", "agent", last.agent.Name, "session", p.id, "error", err)
		}
		delete(due, p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(due, s.due) // later uses win
	s.due = due
	return late
}

// save saves the transcript of a session with secrets redacted.
func (s *recorder) save(l *machine.Lease, p place, last use) error {
	ctx, cancel := context.WithTimeout(context.Background(), saveLimit)
	defer cancel()
	secrets := s.Agents.Redact(ctx, last.agent)
	return s.turn(ctx, func() error {
		// Within the turn: otherwise a session that is closed after the list
		// was made would seem to have begun again.
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

// turn runs do with the exclusive right to change saved transcripts.
func (s *recorder) turn(ctx context.Context, do func() error) error {
	select {
	case <-s.writing:
	case <-ctx.Done():
		return fault.Newf(fault.KindOf(ctx.Err()), "keep transcript", "", "another one is still being saved")
	}
	defer func() { s.writing <- struct{}{} }()
	return do()
}

// compare records which sessions of an agent began or ended since the last
// list. The session id was just used. The caller has the turn.
func (s *recorder) compare(in machine.Guest, last use, id config.SessionID, list []engine.Session) {
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
		if was.in == in { // a guest's end has its own event
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

// ends suppresses events of a session while it is being closed, until done is
// called.
func (s *recorder) ends(p place) (done func()) {
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
func (s *recorder) closed(agent agents.Agent, id config.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.due, place{agent.UID, id})
	delete(s.open, place{agent.UID, id})
}
