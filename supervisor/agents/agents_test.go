package agents_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/vm"
)

const by = machine.Cause("test")

// world is the agents of a home over a fake guest.
type world struct {
	*agents.Agents
	t       *testing.T
	home    config.Home
	backend *hosttest.Backend
	machine *machine.Machine
	folders *vm.Subtrees
	tokens  *bridge.Tokens
	opened  *hosttest.Home
	journal journal
}

// journal records the kinds and causes of events.
type journal struct {
	mu    sync.Mutex
	kinds []string
}

func (j *journal) Note(e events.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.kinds = append(j.kinds, string(e.Kind)+" by "+e.Cause)
}

// count returns the number of such events.
func (j *journal) count(what string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, k := range j.kinds {
		if k == what {
			n++
		}
	}
	return n
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, home: config.Home(filepath.Join(t.TempDir(), "home")), backend: &hosttest.Backend{}}
	w.open()
	t.Cleanup(w.close)
	return w
}

func (w *world) open() {
	w.t.Helper()
	w.folders, w.tokens = new(vm.Subtrees), bridge.NewTokens()
	w.opened = hosttest.OpenHome(w.t, w.home, w.backend, agents.Options{Folders: w.folders, Tokens: w.tokens, Record: &w.journal})
	w.Agents, w.machine = w.opened.Agents, w.opened.Machine
}

func (w *world) close() {
	if err := w.opened.Close(); err != nil {
		w.t.Error(err)
	}
}

// reopen starts a new daemon in the same home.
func (w *world) reopen() {
	w.t.Helper()
	w.close()
	w.open()
}

func (w *world) create(name string) agents.Agent {
	w.t.Helper()
	a, err := w.Create(w.t.Context(), agents.New{Name: name}, by)
	w.must(err)
	return a
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v\nadvice: %s", err, fault.AdviceOf(err))
	}
}

func (w *world) want(err error, kind fault.Kind) {
	w.t.Helper()
	if err == nil || fault.KindOf(err) != kind || fault.AdviceOf(err) == "" {
		w.t.Errorf("%v (%s, advice %q), want %s", err, fault.KindOf(err), fault.AdviceOf(err), kind)
	}
}

func (w *world) exec(ref string) error {
	p, err := w.Exec(w.t.Context(), ref, engine.Command{Args: []string{"true"}})
	if err == nil {
		_, err = p.Wait()
	}
	return err
}

// userMap reads the file for other programs.
func (w *world) userMap() map[string]string {
	w.t.Helper()
	text, err := os.ReadFile(w.home.AgentMap())
	w.must(err)
	var m map[string]string
	w.must(json.Unmarshal(text, &m))
	again, err := json.MarshalIndent(m, "", "  ")
	w.must(err)
	if string(again)+"\n" != string(text) {
		w.t.Errorf("the map is not pretty and sorted:\n%s", text)
	}
	return m
}

func (w *world) subtrees() map[string]uint32 {
	list := *w.folders.Load()
	m := map[string]uint32{}
	for _, s := range list {
		m[s.Path] = s.UID
	}
	return m
}

func TestCreate(t *testing.T) {
	w := newWorld(t)
	alice, bob := w.create("Alice"), w.create("bob the builder")
	if alice.Name != "alice" || alice.User != "agent-alice" || alice.UID != 20000 || alice.Home() != "/workspace/agents/alice" {
		t.Errorf("%+v", alice)
	}
	if bob.Name != "bob-the-builder" || bob.UID != 20001 || bob.ID == alice.ID {
		t.Errorf("%+v", bob)
	}
	if _, err := config.ParseAgentID(string(alice.ID)); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(w.home.AgentHome("alice"), "plugins")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info, err)
	}
	check := func() {
		t.Helper()
		if m := w.userMap(); !maps.Equal(m, map[string]string{"agent-alice": string(alice.ID), "agent-bob-the-builder": string(bob.ID)}) {
			t.Errorf("map: %v", m)
		}
		if s := w.subtrees(); !maps.Equal(s, map[string]uint32{"agents/alice": 20000, "agents/bob-the-builder": 20001}) {
			t.Errorf("subtrees: %v", s)
		}
		for _, ref := range []string{"alice", "ALICE", string(alice.ID), strings.ToLower(string(alice.ID))} {
			if a, err := w.Get(ref); err != nil || a.ID != alice.ID || a.Created.IsZero() {
				t.Errorf("%s: %+v %v", ref, a, err)
			}
		}
	}
	check()
	w.must(os.Remove(w.home.AgentMap()))
	w.reopen()
	check()
	_, err := w.Get("carol")
	w.want(err, fault.NotFound)
	// An agent with this id could read the host's own secrets.
	_, err = w.Create(t.Context(), agents.New{Name: string(secrets.Host)}, by)
	w.want(err, fault.InvalidArgs)
	_, err = w.Create(t.Context(), agents.New{Name: "carol", ID: string(secrets.Host)}, by)
	w.want(err, fault.InvalidArgs)
}

// TestNames lists refused names and normalized ones.
func TestNames(t *testing.T) {
	w := newWorld(t)
	for name, want := range map[string]config.AgentName{
		"a": "a", "Alice": "alice", "My Agent 2": "my-agent-2", "0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E": "0b7c3d5e-9f1a-4c1e-8a55-0f6a1b2c3d4e",
		strings.Repeat("x", 64): config.AgentName(strings.Repeat("x", 64)), "agent-alice": "agent-alice", "nobody": "nobody", "a--b": "a--b",
	} {
		a, err := w.Create(t.Context(), agents.New{Name: name}, by)
		if err != nil || a.Name != want {
			t.Errorf("%q: %+v %v", name, a, err)
		}
		if a.User != want.User() {
			t.Errorf("%q has the user %s", name, a.User)
		}
	}
	for name, kind := range map[string]fault.Kind{
		"": fault.InvalidArgs, "ROOT": fault.InvalidArgs, "a/../b": fault.InvalidArgs, strings.Repeat("x", 65): fault.InvalidArgs, "a\nb": fault.InvalidArgs,
		"alice": fault.Rejected, "ALICE": fault.Rejected, "my-agent 2": fault.Rejected, "diag": fault.Rejected,
	} {
		_, err := w.Create(t.Context(), agents.New{Name: name}, by)
		w.want(err, kind)
	}
	_, err := w.Create(t.Context(), agents.New{Name: "x", ID: "no id"}, by)
	w.want(err, fault.InvalidArgs)
	_, err = w.Create(t.Context(), agents.New{Name: string(config.NewAgentID()), ID: string(config.NewAgentID())}, by)
	w.want(err, fault.InvalidArgs)
	_, err = w.Create(t.Context(), agents.New{Name: "x", Settings: map[string]string{"network": "some"}}, by)
	w.want(err, fault.InvalidArgs)
	a := w.create("y")
	_, err = w.Create(t.Context(), agents.New{Name: "x", ID: string(a.ID)}, by)
	w.want(err, fault.Rejected)
}

// Concurrent changes never give two agents the same user or uid, and the map is current.
func TestTogether(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	uids := map[uint32]config.AgentID{}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 10 {
				name := fmt.Sprintf("agent %d", (worker+i)%5)
				a, err := w.Create(t.Context(), agents.New{Name: name}, by)
				if err == nil {
					mu.Lock()
					if before, ok := uids[a.UID]; ok && before != a.ID {
						t.Errorf("uid %d was given twice", a.UID)
					}
					uids[a.UID] = a.ID
					mu.Unlock()
				}
				for _, err := range []error{
					w.exec(name), second(w.Set(t.Context(), name, map[string]string{"limits.memoryMB": fmt.Sprint(100 + i)}, by)),
					second(w.Rename(t.Context(), name, fmt.Sprintf("agent %d", (worker+2*i)%7), by)), second(w.Delete(t.Context(), name, i%2 == 0, by)),
				} {
					if kind := fault.KindOf(err); err != nil && kind != fault.NotFound && kind != fault.Rejected {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	m, users := w.userMap(), map[config.LinuxUser]bool{}
	for _, a := range w.List() {
		if m[string(a.User)] != string(a.ID) || users[a.User] {
			t.Errorf("%+v is not in %v, or twice", a, m)
		}
		users[a.User] = true
		w.must(w.exec(string(a.Name)))
	}
	if len(m) != len(users) {
		t.Errorf("%v", m)
	}
}

func second[T any](_ T, err error) error { return err }
