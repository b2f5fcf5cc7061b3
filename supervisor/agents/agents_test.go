package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/supervisor"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/supervisor/store"
	"osaurus-sandbox/vm"
)

const by = supervisor.Cause("test")

// world is the agents of a home over a fake guest.
type world struct {
	*agents.Agents
	t       *testing.T
	home    config.Home
	backend *hosttest.Backend
	sandbox *supervisor.Supervisor
	folders *vm.Subtrees
	db      *store.DB
}

// journal keeps the kinds of events.
type journal struct {
	mu    sync.Mutex
	kinds []events.Kind
}

func (j *journal) Append(_ context.Context, e events.Event) (events.Event, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.kinds = append(j.kinds, e.Kind)
	return e, nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	if err := config.WriteFile(home.SettingsFile(), []byte(`{"autoStart": false}`)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, home: home, backend: &hosttest.Backend{}}
	w.open()
	t.Cleanup(func() { w.close() })
	return w
}

func (w *world) open() {
	w.t.Helper()
	var err error
	if w.db, err = store.Open(context.Background(), w.home.Database()); err != nil {
		w.t.Fatal(err)
	}
	w.folders = new(vm.Subtrees)
	if w.sandbox, err = supervisor.New(context.Background(), supervisor.Options{Home: w.home, Backend: w.backend, Folders: w.folders}); err != nil {
		w.t.Fatal(err)
	}
	if w.Agents, err = agents.Open(context.Background(), agents.Options{
		Home: w.home, DB: w.db, Sandbox: w.sandbox, Folders: w.folders, Record: &journal{}, Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)),
	}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) close() {
	w.Close()
	if err := errors.Join(w.sandbox.Close(context.Background()), w.db.Close()); err != nil {
		w.t.Error(err)
	}
}

// reopen is a new daemon in the same home.
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
	p, err := w.Exec(w.t.Context(), ref, guest.Command{Args: []string{"true"}})
	if err == nil {
		_, err = p.Wait()
	}
	return err
}

// userMap is the file that other programs read.
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
	list, _ := w.folders.All()
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
}

// TestNames says which names are refused and which become which.
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
		if _, err := config.ParseLinuxUser(string(a.User)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, kind := range map[string]fault.Kind{
		"": fault.InvalidArgs, "root": fault.InvalidArgs, "ROOT": fault.InvalidArgs, "-x": fault.InvalidArgs, " x": fault.InvalidArgs, "x ": fault.InvalidArgs,
		"a/../b": fault.InvalidArgs, "..": fault.InvalidArgs, ".": fault.InvalidArgs, "a.b": fault.InvalidArgs, "a_b": fault.InvalidArgs,
		strings.Repeat("x", 300): fault.InvalidArgs, strings.Repeat("x", 65): fault.InvalidArgs, "🦖": fault.InvalidArgs, "Käse": fault.InvalidArgs,
		"\u212aate": fault.InvalidArgs, "a\nb": fault.InvalidArgs, "a\tb": fault.InvalidArgs, "a\x00b": fault.InvalidArgs, "$(id)": fault.InvalidArgs, "a;b": fault.InvalidArgs,
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

// A room is asked for once, however many ask, and again in the next boot.
func TestProvision(t *testing.T) {
	w := newWorld(t)
	alice := w.create("alice")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := w.exec("alice"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if asked := w.backend.Guest().Asked(); !slices.Equal(asked, []string{"ensure agent-alice"}) {
		t.Errorf("%v", asked)
	}
	room, _ := w.backend.Guest().Room("agent-alice")
	if room != (guest.Room{User: "agent-alice", UID: alice.UID, Home: "/workspace/agents/alice", Hostname: "alice", Network: config.NetworkOutbound, Limits: guest.RoomLimits{CPUWeight: 100, PIDs: 512}}) {
		t.Errorf("%+v", room)
	}
	w.must(w.sandbox.Restart(t.Context(), by))
	w.must(w.exec("alice"))
	w.must(w.exec("alice"))
	if asked := w.backend.Guest().Asked(); !slices.Equal(asked, []string{"ensure agent-alice"}) {
		t.Errorf("after a restart: %v", asked)
	}
}

// A room that could not be made is asked for again by the next command.
func TestProvisionFails(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	w.must(w.sandbox.Start(t.Context(), by))
	w.backend.Guest().Refuse(fault.New(fault.Rejected, "make room", "", errors.New("no")).Advise("Do not."))
	w.want(w.exec("alice"), fault.Rejected)
	w.backend.Guest().Refuse(nil)
	w.must(w.exec("alice"))
}

func TestSet(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	w.create("bob")
	w.must(w.exec("alice"))
	changed, err := w.Set(t.Context(), "alice", map[string]string{"limits.memoryMB": "256", "limits.homeMB": "100", "maxCommandsPerTurn": "10"}, by)
	if err != nil || !slices.Equal(changed, []string{"limits.memoryMB", "limits.homeMB"}) {
		t.Errorf("%v %v", changed, err)
	}
	if room, _ := w.backend.Guest().Room("agent-alice"); room.Limits.Memory != 256<<20 {
		t.Errorf("%+v", room)
	}
	if list, _ := w.folders.All(); list[0].MaxBytes != 100<<20 {
		t.Errorf("%+v", list)
	}
	_, err = w.Set(t.Context(), "alice", map[string]string{"network": "none"}, by)
	w.must(err)
	if room, _ := w.backend.Guest().Room("agent-alice"); room.Network != config.NetworkNone || room.Limits.Memory != 256<<20 {
		t.Errorf("%+v", room)
	}
	_, err = w.Set(t.Context(), "bob", map[string]string{"limits.processes": "100"}, by)
	w.must(err)
	w.must(w.exec("alice"))
	if asked := w.backend.Guest().Asked(); !slices.Equal(asked, []string{"ensure agent-alice", "limit agent-alice", "ensure agent-alice"}) {
		t.Errorf("%v", asked)
	}
	// All or none, and what is kept is there for the next daemon.
	_, err = w.Set(t.Context(), "alice", map[string]string{"limits.memoryMB": "512", "limits.processes": "-1"}, by)
	w.want(err, fault.InvalidArgs)
	w.reopen()
	if a, _ := w.Get("alice"); a.Settings.Limits.MemoryMB != 256 || a.Settings.Network != config.NetworkNone || a.Settings.MaxCommandsPerTurn != 10 || !a.Settings.PluginCreate {
		t.Errorf("%+v", a.Settings)
	}
}

// Limits that the guest does not take are said, and count with the next command.
func TestSetThatFails(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	w.must(w.exec("alice"))
	g := w.backend.Guest()
	g.Refuse(fault.New(fault.Execution, "limit room", "", errors.New("no")).Advise("Do not."))
	_, err := w.Set(t.Context(), "alice", map[string]string{"limits.memoryMB": "256"}, by)
	w.want(err, fault.Execution)
	g.Refuse(nil)
	w.must(w.exec("alice"))
	if room, _ := g.Room("agent-alice"); room.Limits.Memory != 256<<20 {
		t.Errorf("%+v", room)
	}
}

func TestDelete(t *testing.T) {
	w := newWorld(t)
	before := w.create("alice")
	w.must(w.exec("alice"))
	w.must(os.WriteFile(filepath.Join(w.home.AgentHome("alice"), "kept"), nil, 0o600))
	pending, err := w.Delete(t.Context(), "alice", false, by)
	if err != nil || pending || w.backend.HasLayer("agent-alice") {
		t.Errorf("%v %v", pending, err)
	}
	if len(w.userMap()) != 0 || len(w.subtrees()) != 0 {
		t.Errorf("%v %v", w.userMap(), w.subtrees())
	}
	w.want(w.exec("alice"), fault.NotFound)
	// Who comes after it has the folder that was kept, and another uid.
	after := w.create("alice")
	if after.UID == before.UID || after.ID == before.ID || after.User != before.User {
		t.Errorf("%+v after %+v", after, before)
	}
	w.must(w.exec("alice"))
	if _, err := os.Stat(filepath.Join(w.home.AgentHome("alice"), "kept")); err != nil {
		t.Error(err)
	}
	// An agent can make folders that not even their owner can read.
	locked := filepath.Join(w.home.AgentHome("alice"), "a", "b")
	w.must(os.MkdirAll(locked, 0o700))
	w.must(os.Symlink(string(w.home), filepath.Join(locked, "link")))
	w.must(os.Chmod(locked, 0))
	w.must(os.Chmod(filepath.Dir(locked), 0))
	_, err = w.Delete(t.Context(), "alice", true, by)
	w.must(err)
	if list, err := os.ReadDir(filepath.Dir(w.home.AgentHome("alice"))); err != nil || len(list) > 0 {
		t.Errorf("%v %v", list, err)
	}
}

// What an agent had in a guest is removed when one runs, before anybody of the
// same name can meet it.
func TestDeleteWithoutGuest(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	w.create("bob")
	w.must(w.exec("alice"))
	w.must(w.exec("bob"))
	w.must(w.sandbox.Stop(t.Context(), by))
	for _, name := range []string{"alice", "bob"} {
		if pending, err := w.Delete(t.Context(), name, false, by); err != nil || !pending {
			t.Errorf("%v %v", pending, err)
		}
	}
	w.create("alice")
	w.reopen() // it is not forgotten
	w.must(w.exec("alice"))
	for deadline := time.Now().Add(10 * time.Second); w.backend.HasLayer("agent-bob"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the layer of a deleted agent is still there")
		}
	}
	asked := w.backend.Guest().Asked()
	ensured, removed := slices.Index(asked, "ensure agent-alice"), slices.Index(asked, "remove agent-alice")
	if removed < 0 || ensured < removed || !w.backend.HasLayer("agent-alice") {
		t.Errorf("%v", asked)
	}
	w.must(w.sandbox.Restart(t.Context(), by))
	w.must(w.exec("alice"))
	if asked := w.backend.Guest().Asked(); !slices.Equal(asked, []string{"ensure agent-alice"}) {
		t.Errorf("once it is removed: %v", asked)
	}
}

func TestDeleteFromSilentGuest(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	w.must(w.exec("alice"))
	g := w.backend.Guest()
	g.Refuse(fault.New(fault.Timeout, "remove room", "", errors.New("silence")))
	if pending, err := w.Delete(t.Context(), "alice", false, by); err != nil || !pending {
		t.Errorf("%v %v", pending, err)
	}
	g.Refuse(nil)
	w.create("alice") // another uid: the fake refuses it if the room is still there
	w.must(w.exec("alice"))
}

func TestRename(t *testing.T) {
	w := newWorld(t)
	alice := w.create("alice")
	w.must(os.WriteFile(filepath.Join(w.home.AgentHome("alice"), "mine"), nil, 0o600))
	carol, err := w.Rename(t.Context(), "alice", "Carol", by)
	if err != nil || carol.Name != "carol" || carol.Folder != "carol" || carol.User != alice.User || carol.UID != alice.UID || carol.ID != alice.ID {
		t.Fatalf("%+v %v", carol, err)
	}
	if _, err := os.Stat(filepath.Join(w.home.AgentHome("carol"), "mine")); err != nil {
		t.Error(err)
	}
	if m := w.userMap(); m["agent-alice"] != string(alice.ID) {
		t.Errorf("%v", m)
	}
	// Who takes the name next cannot have the user.
	other := w.create("alice")
	if other.User == alice.User {
		t.Errorf("%+v", other)
	}
	// With a room in the guest, the home stays until there is none.
	w.must(w.exec("carol"))
	dora, err := w.Rename(t.Context(), "carol", "dora", by)
	if err != nil || dora.Folder != "carol" {
		t.Errorf("%+v %v", dora, err)
	}
	w.must(w.exec("dora"))
	_, err = w.Create(t.Context(), agents.New{Name: "carol"}, by)
	w.want(err, fault.Rejected)
	w.must(w.sandbox.Restart(t.Context(), by))
	w.must(w.exec("dora"))
	if room, _ := w.backend.Guest().Room(alice.User); room.Home != "/workspace/agents/dora" {
		t.Errorf("%+v", room)
	}
	if s := w.subtrees(); s["agents/dora"] != alice.UID || len(s) != 2 {
		t.Errorf("%v", s)
	}
	w.create("carol")

	for to, kind := range map[string]fault.Kind{"alice": fault.Rejected, "diag": fault.Rejected, "a/b": fault.InvalidArgs, string(config.NewAgentID()): fault.InvalidArgs} {
		_, err := w.Rename(t.Context(), "dora", to, by)
		w.want(err, kind)
	}
	w.must(os.Mkdir(w.home.AgentHome("eve"), 0o700))
	_, err = w.Rename(t.Context(), "dora", "eve", by)
	w.want(err, fault.Rejected)
	if same, err := w.Rename(t.Context(), "dora", "DORA", by); err != nil || same.Name != "dora" {
		t.Errorf("%+v %v", same, err)
	}
}

// A daemon that was killed while a folder moved goes on where it was.
func TestRenameCutShort(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	w.must(w.exec("alice"))
	_, err := w.Rename(t.Context(), "alice", "carol", by)
	w.must(err)
	w.must(os.WriteFile(filepath.Join(w.home.AgentHome("alice"), "mine"), nil, 0o600))
	w.must(os.Rename(w.home.AgentHome("alice"), w.home.AgentHome("carol"))) // what it did last
	w.reopen()
	w.must(w.exec("carol"))
	if _, err := os.Stat(filepath.Join(w.home.AgentHome("carol"), "mine")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(w.home.AgentHome("alice")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestReset(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	w.must(w.exec("alice"))
	w.must(w.Reset(t.Context(), "alice", by))
	if w.backend.HasLayer("agent-alice") {
		t.Error("the layer is still there")
	}
	w.must(w.exec("alice"))
	w.must(w.sandbox.Stop(t.Context(), by))
	w.must(w.Reset(t.Context(), "alice", by)) // starts the guest
	if w.backend.HasLayer("agent-alice") {
		t.Error("the layer is still there after a reset of an agent without a room")
	}
}

func TestUsage(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	w.create("bob")
	if list, running, err := w.Usage(t.Context(), ""); err != nil || running || list != nil {
		t.Errorf("%v %v %v", list, running, err)
	}
	if state := w.sandbox.Status().State; state != supervisor.Stopped {
		t.Errorf("asking made the sandbox %s", state)
	}
	w.must(w.exec("bob"))
	w.must(w.exec("alice"))
	var names []string
	list, running, err := w.Usage(t.Context(), "")
	for _, u := range list {
		names = append(names, string(u.Agent.Name))
	}
	if err != nil || !running || !slices.Equal(names, []string{"alice", "bob"}) {
		t.Errorf("%v %v %v", names, running, err)
	}
	if list, _, err := w.Processes(t.Context(), "bob"); err != nil || len(list) != 1 || list[0].Agent.Name != "bob" {
		t.Errorf("%v %v", list, err)
	}
	_, _, err = w.Usage(t.Context(), "carol")
	w.want(err, fault.NotFound)
}

// Whatever happens at once, no two agents ever have a user or a uid in common,
// and the map says who is there.
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
