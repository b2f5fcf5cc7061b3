package daemon_test

import (
	"strings"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/internal/fault"
)

// program returns the identity of a program of the agent, for the bridge's services.
func (d desk) program() bridge.Caller {
	d.t.Helper()
	r, err := d.Agents.Show(d.t.Context(), &controlpb.ShowAgentRequest{Agent: d.agent})
	if err != nil {
		d.t.Fatal(err)
	}
	a := r.Agent
	return bridge.Caller{Agent: config.AgentID(a.Id), Name: config.AgentName(a.Name), User: config.LinuxUser(a.User), Plugin: "rss"}
}

// Deleting an agent deletes what its programs have stored, and a new agent of the same name
// finds none of it.
func TestNothingIsLeftOfADeletedAgent(t *testing.T) {
	var server *control.Server
	client, _ := serve(t, daemon.Options{Ready: func(s *control.Server) { server = s }})
	alice := newDesk(t, client, "alice")
	program := alice.program()
	task := bridge.TaskID("")
	leave := func() error {
		var err error
		if task, err = server.Tasks.Dispatch(t.Context(), program, "x", "key"); err != nil {
			return err
		}
		for _, err := range []error{
			server.Memory.Store(t.Context(), program, "x"), server.Topics.Emit(t.Context(), program, "shared:x", nil),
			server.Lines.Append(t.Context(), program, bridge.Info, "x"),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Agents.Delete(t.Context(), &controlpb.DeleteAgentRequest{Agent: "alice"}); err != nil {
		t.Fatal(err)
	}
	if err := leave(); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a program of an agent that is gone: %v", err)
	}
	for what, err := range map[string]error{
		"memory": server.Memory.Store(t.Context(), program, "x"), "event": server.Topics.Emit(t.Context(), program, "x", nil),
		"line": server.Lines.Append(t.Context(), program, bridge.Info, "x"),
	} {
		if fault.KindOf(err) != fault.NotFound || strings.Contains(err.Error(), "sandbox.db") {
			t.Errorf("%s: %v", what, err)
		}
	}
	alice = newDesk(t, client, "alice")
	program = alice.program()
	if err := server.Lines.Append(t.Context(), program, bridge.Info, "new"); err != nil {
		t.Fatal(err)
	}
	facts, err := client.Memory.List(t.Context(), &controlpb.ListFactsRequest{Agent: "alice"})
	if err != nil || facts.Receive() || facts.Err() != nil {
		t.Errorf("the new one remembers %v, %v", facts.Msg(), err)
	}
	was := task
	if err := leave(); err != nil || task == was {
		t.Errorf("its task is the old one: %v", err)
	}
	for e, err := range control.Messages(client.Topics.Read(t.Context(), &controlpb.ReadTopicsRequest{})) {
		if err != nil || e.Seq != 2 {
			t.Errorf("%v, %v", e, err)
		}
	}
}
