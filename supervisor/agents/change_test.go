package agents_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/machine"
)

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
	// The next agent of that name gets the kept folder and another uid.
	after := w.create("alice")
	if after.UID == before.UID || after.ID == before.ID || after.User != before.User {
		t.Errorf("%+v after %+v", after, before)
	}
	w.must(w.exec("alice"))
	if _, err := os.Stat(filepath.Join(w.home.AgentHome("alice"), "kept")); err != nil {
		t.Error(err)
	}
	// An agent can make folders that their owner cannot read.
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

// A home folder is set aside before the guest removes the room, so that a killed daemon leaves none.
// A folder that a last command makes again is removed too.
func TestKilledWhileItDeletes(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	w.must(w.exec("alice"))
	dir := w.home.AgentHome("alice")
	var during error
	w.backend.Guest().When("remove agent-alice", func() {
		_, during = os.Lstat(dir)
		w.must(os.MkdirAll(filepath.Join(dir, "plugins"), 0o700))
	})
	_, err := w.Delete(t.Context(), "alice", true, by)
	w.must(err)
	if !errors.Is(during, os.ErrNotExist) {
		t.Errorf("the home is still where it was: %v", during)
	}
	if list, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(list) > 0 {
		t.Errorf("%v %v", list, err)
	}
	// The next start removes folders that were set aside.
	w.must(os.Mkdir(filepath.Join(filepath.Dir(dir), ".removed-10001"), 0o700))
	w.reopen()
	if list, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(list) > 0 {
		t.Errorf("%v %v", list, err)
	}
}

// A deleted agent's layer is removed when a guest runs, before the next agent
// of its name gets a room.
func TestDeleteWithoutGuest(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	w.create("bob")
	w.must(w.exec("alice"))
	w.must(w.exec("bob"))
	w.must(w.machine.Stop(t.Context(), by))
	for _, name := range []string{"alice", "bob"} {
		if pending, err := w.Delete(t.Context(), name, false, by); err != nil || !pending {
			t.Errorf("%v %v", pending, err)
		}
	}
	w.create("alice")
	w.reopen() // it is not forgotten
	w.must(w.exec("alice"))
	w.until("the layer of a deleted agent is gone", func() bool { return !w.backend.HasLayer("agent-bob") })
	asked := w.backend.Guest().Asked()
	ensured, removed := slices.Index(asked, "ensure agent-alice"), slices.Index(asked, "remove agent-alice")
	if removed < 0 || ensured < removed || !w.backend.HasLayer("agent-alice") {
		t.Errorf("%v", asked)
	}
	w.must(w.machine.Restart(t.Context(), by))
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
	g.Refuse(fault.Newf(fault.Timeout, "remove room", "", "silence"))
	if pending, err := w.Delete(t.Context(), "alice", false, by); err != nil || !pending {
		t.Errorf("%v %v", pending, err)
	}
	g.Refuse(nil)
	w.create("alice") // another uid: the fake refuses it if the room is still there
	w.must(w.exec("alice"))
}

// Changes that are made while a guest is silent take effect when it answers again.
func TestChangesInASilentGuest(t *testing.T) {
	w := newWorld(t)
	_, err := w.machine.Set(map[string]string{"autoRestart": "false"}, by)
	w.must(err)
	for _, name := range []string{"alice", "bob", "carol"} {
		w.create(name)
		w.must(w.exec(name))
	}
	g := w.backend.Guest()
	g.Mute(true)
	impatient, leave := context.WithCancel(t.Context())
	g.When("ensure agent-carol", leave)
	_, err = w.Set(impatient, "carol", map[string]string{"limits.memoryMB": "256"}, by) // not yet known to be silent
	if kind := fault.KindOf(err); kind != fault.Unavailable || !w.machine.Silent() {    // unless this took seconds
		w.want(err, fault.Timeout)
	}
	w.becomes(machine.Unresponsive)
	if _, err := w.Rename(t.Context(), "alice", "dora", by); err != nil {
		t.Error(err)
	}
	if pending, err := w.Delete(t.Context(), "bob", false, by); err != nil || !pending {
		t.Errorf("%v %v", pending, err)
	}
	asked := len(g.Asked())
	_, err = w.Set(t.Context(), "carol", map[string]string{"network": "none"}, by)
	w.want(err, fault.Unavailable)
	if got := g.Asked()[asked:]; len(got) > 0 {
		t.Errorf("a guest that is known to be silent was asked to %v", got)
	}
	w.want(w.exec("carol"), fault.Unavailable)
	_, err = w.RunningRoom("carol").Exec(t.Context(), engine.Command{Args: []string{"true"}})
	w.want(err, fault.Unavailable)
	if w.backend.Guest() != g {
		t.Fatal("another guest was started")
	}
	g.Mute(false)
	w.becomes(machine.Running)
	w.must(w.exec("dora"))
	if room, _ := g.RoomConfig("agent-alice"); room.Home != "/workspace/agents/alice" {
		t.Errorf("%+v", room)
	}
	w.until("the deleted agent's room is gone", func() bool { _, there := g.RoomConfig("agent-bob"); return !there })
	w.until("the network is none", func() bool { room, _ := g.RoomConfig("agent-carol"); return !room.Address.IsValid() })
}

// becomes waits for a state of the sandbox.
func (w *world) becomes(want machine.State) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for status := w.machine.Status(); status.State != want; {
		var err error
		if status, err = w.machine.Next(ctx, status.Revision); err != nil {
			w.t.Fatalf("the sandbox is %s, not %s: %v", status.State, want, err)
		}
	}
}

// until waits for background work.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	timetest.Eventually(w.t, what, is)
}

// patience bounds waits that take seconds on an idle host.
const patience = 2 * time.Minute

// The user, the uid, the id and the home folder of an agent outlive its names.
func TestRename(t *testing.T) {
	w := newWorld(t)
	alice := w.create("alice")
	w.must(os.WriteFile(filepath.Join(w.home.AgentHome("alice"), "mine"), nil, 0o600))
	w.must(w.exec("alice"))
	carol, err := w.Rename(t.Context(), "alice", "Carol", by)
	if err != nil || carol.Name != "carol" || carol.Folder != "alice" || carol.User != alice.User || carol.UID != alice.UID || carol.ID != alice.ID {
		t.Fatalf("%+v %v", carol, err)
	}
	if m := w.userMap(); m["agent-alice"] != string(alice.ID) {
		t.Errorf("%v", m)
	}
	// The next agent of that name gets another user and another folder.
	other := w.create("alice")
	if other.User == alice.User || other.Folder != config.AgentName("alice-"+strings.ToLower(string(other.ID[:8]))) {
		t.Errorf("%+v", other)
	}
	w.must(w.exec("alice"))
	for range 2 {
		w.must(w.exec("carol"))
		if room, _ := w.backend.Guest().RoomConfig(alice.User); room.Home != "/workspace/agents/alice" || room.Hostname != "alice" {
			t.Errorf("%+v", room)
		}
		w.reopen()
	}
	if _, err := os.Stat(filepath.Join(w.home.AgentHome("alice"), "mine")); err != nil {
		t.Error(err)
	}
	if s := w.subtrees(); s["agents/alice"] != alice.UID || len(s) != 2 {
		t.Errorf("%v", s)
	}

	for to, kind := range map[string]fault.Kind{"alice": fault.Rejected, "diag": fault.Rejected, "a/b": fault.InvalidArgs, string(config.NewAgentID()): fault.InvalidArgs} {
		_, err := w.Rename(t.Context(), "carol", to, by)
		w.want(err, kind)
	}
	if same, err := w.Rename(t.Context(), "carol", "CAROL", by); err != nil || same.Name != "carol" {
		t.Errorf("%+v %v", same, err)
	}
	// What a deleted agent leaves is for the next one of its last name.
	_, err = w.Delete(t.Context(), "carol", false, by)
	w.must(err)
	if again := w.create("carol"); again.Folder != "carol" {
		t.Errorf("%+v", again)
	}
	if _, err := os.Stat(filepath.Join(w.home.AgentHome("carol"), "mine")); err != nil {
		t.Error(err)
	}
}
