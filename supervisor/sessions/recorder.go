package sessions

import (
	"context"
	"maps"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
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
// records which sessions began.
type recorder struct {
	*Manager
	wake   chan struct{} // buffered; a token means that something is due
	done   chan struct{}
	saving sync.Mutex // held to change saved transcripts, and guards open
	open   map[place]machine.Guest

	mu  sync.Mutex // held for moments only
	due map[place]use
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

func newRecorder(m *Manager) *recorder {
	r := &recorder{Manager: m, wake: make(chan struct{}, 1), done: make(chan struct{}), due: map[place]use{}, open: map[place]machine.Guest{}}
	go r.write()
	return r
}

// used notes that a session was used.
func (r *recorder) used(agent agents.Agent, id config.SessionID, by machine.Cause) {
	r.mu.Lock()
	r.due[place{agent.UID, id}] = use{agent, by}
	r.mu.Unlock()
	notify.Signal(r.wake)
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

// saveAll saves what is due. What a guest cannot return in time stays due.
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
	// Within the lock, so that a session that is closed meanwhile does not seem to begin.
	r.saving.Lock()
	defer r.saving.Unlock()
	text, _, err := room.Transcript(ctx, p.id)
	if err != nil {
		return err
	}
	if r.open[p] != l.Guest {
		r.open[p] = l.Guest
		r.note(SessionStarted, last.by, last.agent, map[string]string{"session": string(p.id)})
	}
	return r.kept.save(ctx, p.uid, p.id, secrets.Scrubber().Excerpt(text))
}

// closed notes that a session was closed. The caller holds saving.
func (r *recorder) closed(agent agents.Agent, id config.SessionID) {
	p := place{agent.UID, id}
	delete(r.open, p)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.due, p)
}
