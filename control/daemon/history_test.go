package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/hosttest"
)

// inHome runs a command line as the agent on this host, in the folder of its home.
func (d desk) inHome(home config.Home, line string) {
	d.t.Helper()
	p, err := d.Run(d.t.Context(), control.RunAs{Agent: d.agent}, engine.Command{Args: []string{"sh", "-c", line}, Dir: home.AgentHome(config.AgentName(d.agent))})
	if err == nil {
		_, err = p.Wait()
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d desk) history() (list []string) {
	d.t.Helper()
	for r, err := range control.Messages(d.History.List(d.t.Context(), &controlpb.ListHistoryRequest{Agent: d.agent})) {
		if err != nil {
			d.t.Fatal(err)
		}
		list = append(list, strings.TrimSpace(fmt.Sprintf("%d %s: %s (%s) %s", r.Call.Call, r.Call.Tool, r.Call.Summary, r.Call.Outcome, r.Call.Files)))
	}
	return list
}

func (d desk) tool(name, arguments string) map[string]any {
	d.t.Helper()
	text, err := d.CallTool(d.t.Context(), &controlpb.CallToolRequest{Agent: d.agent, Tool: name, Arguments: arguments}, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	var envelope map[string]any
	if err := json.Unmarshal([]byte(text), &envelope); err != nil {
		d.t.Fatal(text, err)
	}
	return envelope
}

// Commands, jobs, copies and tools are in the history of their agent, without its secrets, and can be
// undone by a person and by a model.
func TestHistory(t *testing.T) {
	home := secretHome(t)
	client, end := serve(t, daemon.Options{Home: home})
	alice := newDesk(t, client, "alice")
	if _, err := client.Secrets.Set(t.Context(), &controlpb.SetSecretRequest{Agent: "alice", Name: "TOKEN", Value: canary}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Agents.Set(t.Context(), &controlpb.SetAgentRequest{Agent: "alice", Settings: map[string]string{"autonomousExec.enabled": "true"}}); err != nil {
		t.Fatal(err)
	}
	alice.inHome(home, "echo one > a; : "+canary)
	alice.inHome(home, "rm a; mkdir d; echo two > d/b")
	job := alice.start("true")
	if _, err := alice.wait(job.Id, limit); err != nil {
		t.Fatal(err)
	}
	if e := alice.tool("sandbox_secret_check", `{"key":"TOKEN"}`); e["ok"] != true { // which only reads
		t.Error(e)
	}
	want := []string{"3 job: true (ok)", `2 exec: sh -c 'rm a; mkdir d; echo two > d/b' (ok) +1 -1`, "1 exec: sh -c 'echo one > a; : " + redacted + "' (ok) +1"}
	if got := alice.history(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	e := alice.tool("sandbox_history", `{"limit":2}`)
	if text := fmt.Sprint(e); !strings.Contains(text, "files:+1 -1") || !strings.Contains(text, "can_undo:true") {
		t.Error(text)
	}
	diff := ""
	for r, err := range control.Messages(client.History.Diff(t.Context(), &controlpb.DiffHistoryRequest{Agent: "alice", Text: true})) {
		if err != nil {
			t.Fatal(err)
		}
		diff += fmt.Sprintln(r.Change.What, r.Change.Path, r.Change.LinesAdded, r.Change.LinesGone, r.Change.Note) + strings.Join(r.Change.Hunks, "")
	}
	if want := "removed a 0 1 \n@@ -1,1 +0,0 @@\n-one\nadded d 0 0 folder\nadded d/b 1 0 \n@@ -0,0 +1,1 @@\n+two\n"; diff != want {
		t.Errorf("%q, want %q", diff, want)
	}
	if e := alice.tool("sandbox_undo", `{}`); e["ok"] != true || !strings.Contains(fmt.Sprint(e), "brought back a") {
		t.Error(e)
	}
	if _, err := os.Stat(filepath.Join(home.AgentHome("alice"), "a")); err != nil {
		t.Error(err)
	}
	if e := alice.tool("sandbox_undo", `{"call":2}`); e["kind"] != "rejected" {
		t.Error(e)
	}
	if u, err := client.History.Undo(t.Context(), &controlpb.UndoRequest{Agent: "alice", Redo: true}); err != nil || u.Of.Call != 4 || u.Call.Call != 5 {
		t.Errorf("%v %v", u, err)
	}
	if _, err := client.History.Undo(t.Context(), &controlpb.UndoRequest{Agent: "nobody"}); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	audited := 0
	for r, err := range control.Messages(client.ListAudit(t.Context(), &controlpb.ListAuditRequest{})) {
		if err == nil && (r.Action == "history.redo" || r.Action == "tool.call" && r.Subject == "sandbox_undo") {
			audited++
		}
	}
	if audited < 6 {
		t.Errorf("%d entries in the audit", audited)
	}
	v, err := client.History.Verify(t.Context(), &controlpb.VerifyHistoryRequest{})
	if err != nil || len(v.Objects) != 0 {
		t.Errorf("%v %v", v, err)
	}
	alice.inHome(home, "echo last > last")
	if err := end(); err != nil { // which makes the checkpoint after it
		t.Fatal(err)
	}
	client, _ = serve(t, daemon.Options{Home: home})
	alice.Client = client
	if got := alice.history(); len(got) != 6 || !strings.HasSuffix(got[0], "(ok) +1") {
		t.Errorf("after a restart: %q", got)
	}
}

// While a command runs, nothing is undone, and --force does not wait.
func TestUndoWhileACommandRuns(t *testing.T) {
	home := newHome(t, "home")
	client, _ := serve(t, daemon.Options{Home: home, Backend: &hosttest.Backend{}})
	alice := newDesk(t, client, "alice")
	alice.inHome(home, "echo one > a")
	ctx, cancel := context.WithCancel(t.Context())
	p, err := client.Run(ctx, control.RunAs{Agent: "alice"}, engine.Command{Args: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.History.Undo(t.Context(), &controlpb.UndoRequest{Agent: "alice", Call: 1})
	if fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "still running: exec") {
		t.Error(err)
	}
	if _, err := client.History.Undo(t.Context(), &controlpb.UndoRequest{Agent: "alice", Call: 1, Force: true}); err != nil && !strings.Contains(err.Error(), "nothing") {
		t.Error(err)
	}
	cancel()
	<-p.Done()
	timetest.Eventually(t, "it has ended", func() bool {
		return strings.HasPrefix(alice.history()[1], "2 exec: sleep 1000 (") && !strings.Contains(alice.history()[1], "()")
	})
}
