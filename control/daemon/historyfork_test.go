package daemon_test

import (
	"os"
	"slices"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/hosttest"
)

// An agent is forked as it is, or as it was after a call. A call that a client makes when another has ended does
// not overlap with that one.
func TestForkByAPI(t *testing.T) {
	home := newHome(t, "home")
	backend := &hosttest.Backend{}
	client, _ := serve(t, daemon.Options{Home: home, Backend: backend})
	alice := newDesk(t, client, "alice")
	alice.inHome(home, "echo one > a")
	alice.inHome(home, "rm a; echo two > b")
	for name, fork := range map[string]struct {
		call  int64
		files []string
	}{"bob": {0, []string{"b", "plugins"}}, "carl": {1, []string{"a", "plugins"}}} {
		for r, err := range control.Messages(client.Agents.Fork(t.Context(), &controlpb.ForkAgentRequest{Agent: "alice", Name: name, Call: fork.call})) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Agent != nil && r.Agent.Name != name {
				t.Error(r.Agent)
			}
		}
		list, err := os.ReadDir(home.AgentHome(config.AgentName(name)))
		var names []string
		for _, e := range list {
			names = append(names, e.Name())
		}
		if err != nil || !slices.Equal(names, fork.files) {
			t.Errorf("%s has %q, not %q (%v)", name, names, fork.files, err)
		}
	}
	for _, err := range control.Messages(client.Agents.Fork(t.Context(), &controlpb.ForkAgentRequest{Agent: "alice", Name: "dora", Call: 99, Stop: true})) {
		if fault.KindOf(err) != fault.NotFound {
			t.Errorf("after no call: %v", err)
		}
	}
	if _, err := os.Stat(home.AgentHome("dora")); err == nil {
		t.Error("half a fork is left")
	}
	if asked := backend.Guest().Asked(); slices.Contains(asked, "fork agent-alice to agent-dora") {
		t.Error("the room was stopped for a call that there is not")
	}
}
