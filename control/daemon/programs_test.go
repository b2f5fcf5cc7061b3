package daemon_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// program is a program of an agent, which speaks to what is behind the bridge.
func (d desk) program() bridge.Caller {
	d.t.Helper()
	r, err := d.Agents.Show(d.t.Context(), &controlpb.ShowAgentRequest{Agent: d.agent})
	if err != nil {
		d.t.Fatal(err)
	}
	a := r.Agent
	return bridge.Caller{Agent: config.AgentID(a.Id), Name: config.AgentName(a.Name), User: config.LinuxUser(a.User), Plugin: "rss"}
}

func (d desk) facts() (list []string) {
	d.t.Helper()
	stream, err := d.Memory.List(d.t.Context(), &controlpb.ListFactsRequest{Agent: d.agent})
	if err != nil {
		d.t.Fatal(err)
	}
	defer stream.Close()
	for stream.Receive() {
		f := stream.Msg().Fact
		list = append(list, fmt.Sprint(f.Content, " ", f.Source, " ", f.Salience, " ", f.Pinned))
	}
	if err := stream.Err(); err != nil {
		d.t.Fatal(err)
	}
	return list
}

func TestMemory(t *testing.T) {
	var server *control.Server
	client, _ := serve(t, daemon.Options{Ready: func(s *control.Server) { server = s }})
	alice, bob := newDesk(t, client, "alice"), newDesk(t, client, "bob")
	if err := server.Memory.Store(t.Context(), alice.program(), "a program knows"); err != nil {
		t.Fatal(err)
	}
	added, err := client.Memory.Add(t.Context(), &controlpb.AddFactRequest{Agent: "Alice", Content: "a person knows", Pinned: true})
	if err != nil || added.Fact.Content != "a person knows" || added.Fact.Created == nil {
		t.Fatalf("%v, %v", added, err)
	}
	if got := alice.facts(); !slices.Equal(got, []string{"a program knows sandbox:agent-alice 0.7 false", "a person knows person 1 true"}) || len(bob.facts()) != 0 {
		t.Errorf("%q", got)
	}
	search := func(agent, query string, limit uint32) (list []string, err error) {
		r, err := client.Memory.Search(t.Context(), &controlpb.SearchFactsRequest{Agent: agent, Query: query, Limit: limit})
		if err == nil {
			for _, f := range r.Facts {
				list = append(list, f.Content)
			}
		}
		return list, err
	}
	if got, err := search("alice", "who knows", 0); err != nil || !slices.Equal(got, []string{"a person knows", "a program knows"}) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := search("carol", "x", 1); fault.KindOf(err) != fault.NotFound {
		t.Errorf("nobody's: %v", err)
	}
	id := added.Fact.Id
	for _, r := range []*controlpb.DeleteFactsRequest{{Agent: "alice", Id: id}, {Agent: "alice", All: true}} {
		if got, err := client.Memory.Delete(t.Context(), r); err != nil || got.Deleted != 1 {
			t.Errorf("%v: %v, %v", r, got, err)
		}
	}
	if got := alice.facts(); got != nil {
		t.Errorf("%q", got)
	}
}

// A task goes from a program to an app and back to who asks for it, also when the
// daemon ends in between.
func TestTasks(t *testing.T) {
	home := newHome(t, "home")
	var server *control.Server
	options := daemon.Options{Home: home, Ready: func(s *control.Server) { server = s }}
	client, end := serve(t, options)
	alice := newDesk(t, client, "alice")
	program := alice.program()
	waiting := make(chan *controlpb.LeaseTaskResponse, 1)
	go func() {
		r, err := client.Tasks.Lease(t.Context(), &controlpb.LeaseTaskRequest{Agent: "alice", Hold: durationpb.New(time.Minute), Wait: durationpb.New(limit)})
		if err != nil {
			t.Error(err)
			r = &controlpb.LeaseTaskResponse{}
		}
		waiting <- r
	}()
	id, err := server.Tasks.Dispatch(t.Context(), program, "do it", "chat-1")
	if err != nil {
		t.Fatal(err)
	}
	leased := <-waiting
	if task := leased.Task; task.GetId() != string(id) || task.Agent != "alice" || task.Text != "do it" || task.State != "leased" || task.Worker != "test" || leased.Lease == "" {
		t.Fatalf("%v", leased)
	}
	timetest.Eventually(t, "it is told", func() bool {
		return slices.Equal(alice.events("task."), []string{"task.queued alice", "task.leased alice"})
	})
	if err := end(); err != nil {
		t.Fatal(err)
	}

	client, _ = serve(t, options)
	if again, err := server.Tasks.Dispatch(t.Context(), program, "do it", "chat-1"); again != id || err != nil {
		t.Errorf("it is another one: %s, %v", again, err)
	}
	if _, err := client.Tasks.Renew(t.Context(), &controlpb.RenewTaskRequest{Id: string(id), Lease: leased.Lease}); err != nil {
		t.Error(err)
	}
	done, err := client.Tasks.Complete(t.Context(), &controlpb.CompleteTaskRequest{Id: string(id), Lease: leased.Lease, Result: "it is done"})
	if err != nil || done.Task.State != "done" {
		t.Errorf("%v, %v", done, err)
	}
	added, err := client.Tasks.Dispatch(t.Context(), &controlpb.DispatchTaskRequest{Agent: "alice", Text: "and that"})
	if err != nil || added.Task.Source != "test" {
		t.Fatalf("%v, %v", added, err)
	}
	cancelled, err := client.Tasks.Cancel(t.Context(), &controlpb.CancelTaskRequest{Id: added.Task.Id})
	if err != nil || cancelled.Task.State != "cancelled" {
		t.Errorf("%v, %v", cancelled, err)
	}
	list := func(r *controlpb.ListTasksRequest) (ids []string) {
		t.Helper()
		stream, err := client.Tasks.List(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		for stream.Receive() {
			ids = append(ids, stream.Msg().Task.Id)
		}
		if err := stream.Err(); err != nil {
			t.Error(err)
		}
		return ids
	}
	if ids := list(&controlpb.ListTasksRequest{Agent: "alice"}); !slices.Equal(ids, []string{added.Task.Id, string(id)}) {
		t.Errorf("%q", ids)
	}
	if ids := list(&controlpb.ListTasksRequest{Open: true}); ids != nil {
		t.Errorf("%q are open", ids)
	}
}

// What programs tell and log reaches those who follow, of the agents that they mean.
func TestTopicsAndLogs(t *testing.T) {
	var server *control.Server
	client, _ := serve(t, daemon.Options{Ready: func(s *control.Server) { server = s }})
	alice, bob := newDesk(t, client, "alice").program(), newDesk(t, client, "bob").program()
	emit := func(who bridge.Caller, topic bridge.Topic) {
		t.Helper()
		if err := server.Topics.Emit(t.Context(), who, topic, json.RawMessage(`{"by":"`+who.Name+`"}`)); err != nil {
			t.Fatal(err)
		}
	}
	emit(alice, "mail")
	stream, err := client.Topics.Read(t.Context(), &controlpb.ReadTopicsRequest{Agent: "bob", Follow: true, Topics: []string{"shared:*", "mail"}})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	emit(bob, "other")
	emit(bob, "mail")
	emit(alice, "shared:news")
	for _, want := range []string{`3 mail bob sandbox:agent-bob {"by":"bob"}`, `4 shared:news alice sandbox:agent-alice {"by":"alice"}`} {
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
		e := stream.Msg()
		if got := fmt.Sprint(e.Seq, " ", e.Topic, " ", e.Agent, " ", e.Source, " ", e.Payload); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, r := range []*controlpb.ReadTopicsRequest{{After: 9}, {Topics: []string{"a*b"}}} {
		stream, err := client.Topics.Read(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if stream.Receive() || fault.KindOf(stream.Err()) != fault.InvalidArgs {
			t.Errorf("%v: %v", r, stream.Err())
		}
		stream.Close()
	}

	line := func(text string) {
		t.Helper()
		if err := server.Lines.Append(t.Context(), alice, bridge.Warn, text); err != nil {
			t.Fatal(err)
		}
	}
	line("one\n\x1b[31mtwo\u202e")
	logs, err := client.Logs(t.Context(), &controlpb.LogsRequest{Agent: "alice", Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	for i, want := range []string{"one", "·[31mtwo·", "three"} {
		if !logs.Receive() {
			t.Fatal(logs.Err())
		}
		if l := logs.Msg(); l.Text != want || l.Level != "warn" || l.Source != "agent-alice/rss" || time.Since(l.Time.AsTime()) > limit {
			t.Errorf("%v, want %q", l, want)
		}
		if i == 1 {
			line("three")
		}
	}
}

// With an agent goes all that its programs have left here, and another one of the
// same name finds nothing of it.
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
	if got := alice.facts(); got != nil {
		t.Errorf("the new one has in mind %q", got)
	}
	was := task
	if err := leave(); err != nil || task == was {
		t.Errorf("its task is the old one: %v", err)
	}
	stream, err := client.Topics.Read(t.Context(), &controlpb.ReadTopicsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for n := 0; stream.Receive(); n++ {
		if e := stream.Msg(); e.Seq != 2 {
			t.Errorf("%v", e)
		}
	}
	if err := stream.Err(); err != nil {
		t.Error(err)
	}
}
