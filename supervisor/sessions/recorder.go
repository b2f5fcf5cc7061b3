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
	// saveAgain is the pause after a failed save.
	saveAgain = 5 * time.Second
	// attachedEvery is how often the transcript of a session with an attached
	// person is saved.
	attachedEvery = 2 * time.Second
)

// recorder saves the transcripts of used sessions in the background, and
// records which sessions began and ended.
type recorder struct {
	*Manager
	wake   chan struct{} // buffered; a token means that something is due
	done   chan struct{}
	saving sync.Mutex // held to change saved transcripts

	mu   sync.Mutex // held for moments only
	due  map[place]use
	open map[place]opened
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

func newRecorder(m *Manager) *recorder {
	r := &recorder{Manager: m, wake: make(chan struct{}, 1), done: make(chan struct{}), due: map[place]use{}, open: map[place]opened{}}
	go r.write()
	return r
}

// used notes that a session was used.
func (r *recorder) used(agent agents.Agent, id config.SessionID, by machine.Cause) {
	r.mu.Lock()
	r.due[place{agent.UID, id}] = use{agent, by}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *recorder) write() {
	defer close(r.done)
	var again <-chan time.Time // after a failed save
	for {
		select {
		case <-r.wake:
		case <-again:
		case <-r.life.Done():
			return
		}
		failed := again != nil
		again = nil
		if err := r.saveAll(); err != nil {
			again = time.After(saveAgain)
			if !failed {
				r.Log.Warn("transcripts will be saved later", "error", err)
			}
		}
	}
}

// close saves what is due.
func (r *recorder) close() {
	<-r.done
	if err := r.saveAll(); err != nil {
		r.Log.Warn("some transcripts were not saved", "error", err)
	}
}

// saveAll saves what is due. What guests have no time for stays due.
func (r *recorder) saveAll() (late error) {
	r.mu.Lock()
	due := r.due
	r.due = map[place]use{}
	r.mu.Unlock()
	for p, last := range due {
		err := r.save(p, last)
		if fault.KindOf(err) == fault.Timeout {
			late = err
			continue
		}
		if err != nil && fault.KindOf(err) != fault.NotFound { // it was closed meanwhile
			r.Log.Warn("a transcript was not saved", "agent", last.agent.Name, "session", p.id, "error", err)
		}
		delete(due, p)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(due, r.due) // later uses win
	r.due = due
	return late
}

// save saves the transcript of a session with secrets redacted.
func (r *recorder) save(p place, last use) error {
	vm := r.Agents.Machines.For(last.agent.ID)
	l, ok := vm.Peek()
	if !ok {
		return nil // the session ended with the guest
	}
	defer l.Release()
	if vm.Silent() {
		return fault.New(fault.Timeout, "save transcript", string(p.id), guest.ErrSilent)
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveLimit)
	defer cancel()
	secrets, room := r.Agents.Redact(ctx, last.agent), l.Room(last.agent.User)
	// A session that is closed after it was listed would seem to have begun again.
	r.saving.Lock()
	defer r.saving.Unlock()
	list, err := room.Sessions(ctx)
	if err != nil {
		return err
	}
	r.compare(l.Guest, last, p.id, list)
	text, _, err := room.Transcript(ctx, p.id)
	if err != nil {
		return err
	}
	return r.kept.save(ctx, p.uid, p.id, redactTranscript(secrets.Scrubber(), text))
}

// compare records which sessions of an agent began or ended since the last
// list. The session id was just used. The caller holds saving.
func (r *recorder) compare(in machine.Guest, last use, id config.SessionID, list []engine.Session) {
	now := map[place]opened{}
	for _, session := range list {
		id, err := config.ParseSessionID(session.ID)
		if err == nil && session.User == string(last.agent.User) {
			now[place{last.agent.UID, id}] = opened{in, session.Made}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, was := range r.open {
		if p.uid != last.agent.UID || was == now[p] {
			continue
		}
		delete(r.open, p)
		if was.in == in { // a guest's end has its own event
			r.note(SessionClosed, machine.CauseGuest, last.agent, map[string]string{"session": string(p.id)})
		}
	}
	for p, is := range now {
		if r.open[p] == is {
			continue
		}
		r.open[p] = is
		cause := machine.CauseGuest
		if p.id == id {
			cause = last.by
		}
		r.note(SessionStarted, cause, last.agent, map[string]string{"session": string(p.id)})
	}
}

// closed notes that a session was closed on purpose.
func (r *recorder) closed(agent agents.Agent, id config.SessionID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.due, place{agent.UID, id})
	delete(r.open, place{agent.UID, id})
}
