package sessions

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/agents"
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
	delayed.Store(0) // a busy host may have no time either
	g := backend.Guest()
	g.Refuse(fault.Newf(fault.Timeout, "read transcript", "", "it has no time"))
	for _, command := range []string{"echo second", "echo third"} {
		asked := len(g.Asked())
		m.run(t, "s", command)
		timetest.Eventually(t, "the guest was asked", func() bool { return slices.Contains(g.Asked()[asked:], "transcript agent-alice") })
	}
	g.Refuse(nil)
	timetest.Eventually(t, "it is saved later", func() bool { return saved("third") })
	if n := delayed.Load(); n != 1 {
		t.Errorf("it was logged %d times", n)
	}
}
