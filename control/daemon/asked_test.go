package daemon_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/bridge/bridgetest"
	"osaurus-sandbox/bridge/client"
	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/internal/fault"
)

// What a program asks for over HTTP, an app and a person find over the API, and
// the other way round.
func TestProgramAndAppMeet(t *testing.T) {
	var server *control.Server
	app, _ := serve(t, daemon.Options{Ready: func(s *control.Server) { server = s }})
	const uid = 20000
	who := newDesk(t, app, "alice").program()
	asked := bridgetest.New(t, func(o *bridge.Options) {
		o.Services = bridge.Services{Memory: server.Memory, Tasks: server.Tasks, Events: server.Topics, Log: server.Lines}
	})
	token := asked.Tokens.Mint(bridge.Holder{Agent: who.Agent, Name: who.Name, User: who.User, UID: uid})
	program := client.New(client.Options{Socket: asked.Listen(t, uid), Token: string(token), Plugin: "rss"})
	t.Cleanup(program.Close)
	ctx := t.Context()

	if err := program.Remember(ctx, `Anna said "tea"`); err != nil {
		t.Fatal(err)
	}
	if _, err := app.Memory.Add(ctx, &controlpb.AddFactRequest{Agent: "alice", Content: "tea is in the cupboard"}); err != nil {
		t.Fatal(err)
	}
	found, err := program.Recall(ctx, "tea?")
	if err != nil || len(found.Results) != 2 || found.Results[0].Content != "tea is in the cupboard" || found.Results[1].Salience != 0.7 || found.Results[1].CreatedAt.IsZero() {
		t.Errorf("%+v, %v", found, err)
	}

	task := wire.Dispatch{Task: "make tea", ExternalSessionKey: strings.Repeat("k", 512)} // the longest that the bridge takes
	first, err := program.Dispatch(ctx, task)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := program.Dispatch(ctx, task); err != nil || second != first {
		t.Errorf("%v and %v, %v", first, second, err)
	}
	leased, err := app.Tasks.Lease(ctx, &controlpb.LeaseTaskRequest{Agent: "alice"})
	if err != nil || leased.Task.GetId() != first.TaskID || leased.Task.Text != "make tea" || leased.Task.Source != "sandbox:agent-alice" {
		t.Fatalf("%v, %v", leased, err)
	}
	deeper, err := program.Dispatch(ctx, wire.Dispatch{Task: "boil water"}) // while it works on the first
	if err != nil {
		t.Fatal(err)
	}
	if shown, err := app.Tasks.Show(ctx, &controlpb.ShowTaskRequest{Id: deeper.TaskID}); err != nil || shown.Task.Depth != 1 {
		t.Errorf("%v, %v", shown, err)
	}
	if _, err := program.Dispatch(ctx, wire.Dispatch{Task: strings.Repeat("x", 64<<10+1)}); fault.KindOf(err) != fault.InvalidArgs {
		t.Errorf("a long task: %v", err)
	}

	if err := program.Emit(ctx, "shared:tea", json.RawMessage(`{"ready": true}`)); err != nil {
		t.Fatal(err)
	}
	told, err := app.Topics.Read(ctx, &controlpb.ReadTopicsRequest{Agent: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	if !told.Receive() || fmt.Sprint(told.Msg().Topic, told.Msg().Payload) != `shared:tea{"ready":true}` {
		t.Errorf("%v, %v", told.Msg(), told.Err())
	}
	if err := program.Log(ctx, "warn", "no milk"); err != nil {
		t.Fatal(err)
	}
	logs, err := app.Logs(ctx, &controlpb.LogsRequest{Agent: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	if !logs.Receive() || fmt.Sprint(logs.Msg().Level, " ", logs.Msg().Source, " ", logs.Msg().Text) != "warn agent-alice/rss no milk" {
		t.Errorf("%v, %v", logs.Msg(), logs.Err())
	}
}
