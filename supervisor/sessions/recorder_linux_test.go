package sessions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
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
	"osaurus-sandbox/supervisor/store"
	"osaurus-sandbox/vm"
)

// nobody takes note of nothing.
type nobody struct{}

func (nobody) Note(events.Event) {}

// later counts how often a log says that transcripts are kept later.
type later struct {
	slog.Handler
	told *atomic.Int32
}

func (l later) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "saved later") {
		l.told.Add(1)
	}
	return l.Handler.Handle(ctx, r)
}

// openTerminals are those of a home without agents.
func openTerminals(t *testing.T, backend machine.Backend, record events.Recorder, log *slog.Logger) (*Terminals, *agents.Agents) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	must(config.WriteFile(home.SettingsFile(), []byte(`{"autoStart": false}`)))
	db, err := store.Open(t.Context(), home.Database())
	must(err)
	folders := new(vm.Subtrees)
	sandbox, err := machine.New(t.Context(), machine.Options{Home: home, Backend: backend, Folders: folders})
	must(err)
	all, err := agents.Open(t.Context(), agents.Options{
		Home: home, DB: db, Machines: machine.NewFleet(sandbox), Folders: folders, Tokens: bridge.NewTokens(), Record: nobody{}, Log: log,
	})
	must(err)
	terminals := New(Options{DB: db, Machines: machine.NewFleet(sandbox), Agents: all, Record: record, Log: log})
	t.Cleanup(func() {
		terminals.Close()
		all.Close()
		if err := errors.Join(sandbox.Close(context.Background()), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return terminals, all
}

// A guest that has no time to hand out what a session has shown does so later, and it is kept.
// That is told once, however often it is asked meanwhile.
func TestTranscriptIsKeptLater(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var told atomic.Int32
	backend := &hosttest.Backend{}
	terminals, all := openTerminals(t, backend, nobody{}, slog.New(later{slog.NewTextHandler(t.Output(), nil), &told}))
	alice, err := all.Create(t.Context(), agents.New{Name: "alice"}, "test")
	must(err)
	run := func(command string) {
		t.Helper()
		_, err := terminals.Run(t.Context(), "alice", engine.ShellCommand{Shell: engine.Shell{Session: "s"}, Command: command}, "test")
		must(err)
	}
	kept := func(what string) bool {
		text, _, err := terminals.kept.read(t.Context(), alice.UID, "s")
		must(err)
		return strings.Contains(text, what)
	}
	run("echo first")
	timetest.Eventually(t, "it is kept", func() bool { return kept("first") })
	g := backend.Guest()
	g.Refuse(fault.Newf(fault.Timeout, "list sessions", "", "it has no time"))
	for _, command := range []string{"echo second", "echo third"} {
		asked := len(g.Asked())
		run(command)
		timetest.Eventually(t, "the guest was asked", func() bool { return slices.Contains(g.Asked()[asked:], "sessions agent-alice") })
	}
	g.Refuse(nil)
	timetest.Eventually(t, "it is kept later", func() bool { return kept("third") })
	if n := told.Load(); n != 1 {
		t.Errorf("it was told %d times", n)
	}
}

// watched is a backend whose guests have something be done when they have listed sessions, or closed one, and
// nobody has heard of it yet.
type watched struct {
	*hosttest.Backend
	mu             sync.Mutex
	listed, closed func()
}

func (w *watched) Boot(ctx context.Context, s config.Settings, tracker *progress.Tracker) (machine.Guest, boot.Machine, error) {
	g, m, err := w.Backend.Boot(ctx, s, tracker)
	return watchedGuest{g, w}, m, err
}

// next has something be done, once.
func (w *watched) next(which *func(), do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*which = do
}

func (w *watched) met(which *func()) {
	w.mu.Lock()
	do := *which
	*which = nil
	w.mu.Unlock()
	if do != nil {
		do()
	}
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
	r.by.met(&r.by.listed)
	return list, err
}

func (r watchedRoom) CloseSession(ctx context.Context, id config.SessionID) (int, error) {
	ended, err := r.Room.CloseSession(ctx, id)
	r.by.met(&r.by.closed)
	return ended, err
}

// chronicle keeps what happened to sessions: "session.started s by test".
type chronicle struct {
	mu   sync.Mutex
	what []string
}

func (r *chronicle) Note(e events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.what = append(r.what, fmt.Sprintf("%s %s by %s", e.Kind, e.Fields["session"], e.Cause))
}

func (r *chronicle) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.what)
}

// A session that is closed while it is looked which there are has begun once and was closed once, by who closed it.
func TestClosedWhileLookedAt(t *testing.T) {
	for _, name := range []string{"after they were listed", "before they are listed"} {
		t.Run(name, func(t *testing.T) {
			w, journal := &watched{Backend: &hosttest.Backend{}}, new(chronicle)
			terminals, all := openTerminals(t, w, journal, slog.New(slog.NewTextHandler(t.Output(), nil)))
			if _, err := all.Create(t.Context(), agents.New{Name: "alice"}, "test"); err != nil {
				t.Fatal(err)
			}
			run := func(id config.SessionID) {
				if _, err := terminals.Run(t.Context(), "alice", engine.ShellCommand{Shell: engine.Shell{Session: id}, Command: "true"}, "test"); err != nil {
					t.Error(err)
				}
			}
			// use has a session be used, and be looked at after that.
			use := func(id config.SessionID) {
				run(id)
				timetest.Eventually(t, "it has begun", func() bool { return slices.Contains(journal.list(), fmt.Sprintf("session.started %s by test", id)) })
			}
			closed := make(chan struct{})
			end := func() {
				defer close(closed)
				if err := terminals.CloseSession(t.Context(), "alice", "s", "test"); err != nil {
					t.Error(err)
				}
			}
			use("s")
			if name == "after they were listed" {
				w.next(&w.listed, func() {
					go end()
					select { // it may wait for the end of the look, and is done at once if it does not
					case <-closed:
					case <-time.After(time.Second):
					}
				})
				run("s")
			} else {
				w.next(&w.closed, func() { use("t") })
				end()
			}
			<-closed
			use("u")
			what := slices.DeleteFunc(journal.list(), func(line string) bool { return !strings.Contains(line, " s ") })
			if !slices.Equal(what, []string{"session.started s by test", "session.closed s by test"}) {
				t.Errorf("it is told: %q", what)
			}
		})
	}
}
