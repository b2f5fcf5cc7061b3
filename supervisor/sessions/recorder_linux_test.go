package sessions

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/supervisor/machine"
)

// delays counts how often a log says that transcripts are saved later.
type delays struct {
	slog.Handler
	n *atomic.Int32
}

func (d delays) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "saved later") {
		d.n.Add(1)
	}
	return d.Handler.Handle(ctx, r)
}

// open returns the sessions of a home with the agent alice.
func open(t *testing.T, backend machine.Backend, record events.Recorder, log *slog.Logger) (*Manager, agents.Agent) {
	t.Helper()
	home := hosttest.OpenHome(t, config.Home(filepath.Join(t.TempDir(), "home")), backend, agents.Options{Record: hosttest.Discard{}})
	m := New(Options{DB: home.DB, Agents: home.Agents, Record: record, Log: log})
	t.Cleanup(func() {
		m.Close()
		if err := home.Close(); err != nil {
			t.Error(err)
		}
	})
	alice, err := home.Agents.Create(t.Context(), agents.New{Name: "alice"}, "test")
	if err != nil {
		t.Fatal(err)
	}
	return m, alice
}

// run runs a command in a session of alice.
func (m *Manager) run(t *testing.T, id config.SessionID, command string) {
	t.Helper()
	if _, err := m.Room("alice", "test").RunShell(t.Context(), engine.ShellCommand{Shell: engine.Shell{Session: id}, Command: command}); err != nil {
		t.Fatal(err)
	}
}

// If the guest has no time, transcripts are saved later. The log says so once.
func TestTranscriptIsSavedLater(t *testing.T) {
	var delayed atomic.Int32
	backend := &hosttest.Backend{}
	m, alice := open(t, backend, hosttest.Discard{}, slog.New(delays{slog.NewTextHandler(t.Output(), nil), &delayed}))
	saved := func(what string) bool {
		text, _, err := m.kept.read(t.Context(), alice.UID, "s")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(text, what)
	}
	m.run(t, "s", "echo first")
	timetest.Eventually(t, "it is saved", func() bool { return saved("first") })
	g := backend.Guest()
	g.Refuse(fault.Newf(fault.Timeout, "list sessions", "", "it has no time"))
	for _, command := range []string{"echo second", "echo third"} {
		asked := len(g.Asked())
		m.run(t, "s", command)
		timetest.Eventually(t, "the guest was asked", func() bool { return slices.Contains(g.Asked()[asked:], "sessions agent-alice") })
	}
	g.Refuse(nil)
	timetest.Eventually(t, "it is saved later", func() bool { return saved("third") })
	if n := delayed.Load(); n != 1 {
		t.Errorf("it was logged %d times", n)
	}
}

// watched is a backend whose guests call listed once after they have listed sessions.
type watched struct {
	*hosttest.Backend
	mu     sync.Mutex
	listed func()
}

func (w *watched) Boot(ctx context.Context, s config.Settings, tracker *progress.Tracker) (machine.Guest, boot.Machine, error) {
	g, m, err := w.Backend.Boot(ctx, s, tracker)
	return watchedGuest{g, w}, m, err
}

type watchedGuest struct {
	machine.Guest
	by *watched
}

func (g watchedGuest) Room(user config.LinuxUser) engine.Room {
	return watchedRoom{g.Guest.Room(user), g.by}
}

type watchedRoom struct {
	engine.Room
	by *watched
}

func (r watchedRoom) Sessions(ctx context.Context) ([]engine.Session, error) {
	list, err := r.Room.Sessions(ctx)
	r.by.mu.Lock()
	do := r.by.listed
	r.by.listed = nil
	r.by.mu.Unlock()
	if do != nil {
		do()
	}
	return list, err
}

// journal records events of sessions: "session.started s by test".
type journal struct {
	mu   sync.Mutex
	list []string
}

func (j *journal) Note(e events.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, fmt.Sprintf("%s %s by %s", e.Kind, e.Fields["session"], e.Cause))
}

func (j *journal) about(session string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(j.list), func(line string) bool { return !strings.Contains(line, " "+session+" ") })
}

// A session that is closed right after the recorder has listed it does not seem to begin again.
func TestClosedWhileListed(t *testing.T) {
	w, journal := &watched{Backend: &hosttest.Backend{}}, new(journal)
	m, _ := open(t, w, journal, slog.New(slog.NewTextHandler(t.Output(), nil)))
	use := func(id config.SessionID) {
		m.run(t, id, "true")
		timetest.Eventually(t, "it has begun", func() bool { return len(journal.about(string(id))) > 0 })
	}
	use("s")
	closed := make(chan struct{})
	w.mu.Lock()
	w.listed = func() {
		go func() {
			defer close(closed)
			if _, err := m.Room("alice", "test").CloseSession(t.Context(), "s"); err != nil {
				t.Error(err)
			}
		}()
		select { // it waits for the recorder, so this takes its time
		case <-closed:
		case <-time.After(time.Second):
		}
	}
	w.mu.Unlock()
	m.run(t, "s", "true")
	<-closed
	use("u")
	if got := journal.about("s"); !slices.Equal(got, []string{"session.started s by test", "session.closed s by test"}) {
		t.Errorf("the events are %q", got)
	}
}
