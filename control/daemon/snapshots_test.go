package daemon_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/homelock"
)

// TestSnapshots restores a snapshot over the API: the daemon ends, and the next one has its state.
func TestSnapshots(t *testing.T) {
	home := newHome(t, "home")
	if err := os.MkdirAll(filepath.Dir(home.DataDisk()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(home.DataDisk(), []byte("a disk"), 0o600); err != nil {
		t.Fatal(err)
	}
	client, end := serve(t, daemon.Options{Home: home})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	create := func(name string) {
		t.Helper()
		_, err := client.Agents.Create(t.Context(), &controlpb.CreateAgentRequest{Name: name})
		must(err)
	}
	create("alice")
	must(os.WriteFile(filepath.Join(home.AgentHome("alice"), "file"), []byte("one"), 0o600))
	var made *controlpb.Snapshot
	for r, err := range control.Messages(client.Backups.Create(t.Context(), &controlpb.CreateSnapshotRequest{Name: "one"})) {
		must(err)
		made = r.Snapshot
	}
	if made.GetName() != "one" || !slices.Equal(made.Agents, []string{"alice"}) {
		t.Fatalf("made %v", made)
	}
	create("bob")
	must(os.Remove(filepath.Join(home.AgentHome("alice"), "file")))
	for r, err := range control.Messages(client.Backups.Restore(t.Context(), &controlpb.RestoreSnapshotRequest{Name: "one"})) {
		if err != nil && made == nil { // the daemon ends, perhaps before the call
			t.Fatal(err)
		}
		made = r.GetSnapshot()
	}
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if _, owned := homelock.Holder(home); !owned {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the daemon does not end")
		}
	}
	must(end())
	client, _ = serve(t, daemon.Options{Home: home})
	now, err := client.Agents.List(t.Context(), &controlpb.ListAgentsRequest{})
	must(err)
	if b, err := os.ReadFile(filepath.Join(home.AgentHome("alice"), "file")); len(now.Agents) != 1 || string(b) != "one" {
		t.Errorf("agents %v, file %q, %v", now.Agents, b, err)
	}
	list, err := client.Backups.List(t.Context(), &controlpb.ListSnapshotsRequest{})
	must(err)
	if len(list.Snapshots) != 2 || list.Snapshots[1].Name != "before-restore" || !slices.Equal(list.Snapshots[1].Agents, []string{"alice", "bob"}) {
		t.Errorf("snapshots: %v", list.Snapshots)
	}
	archive, err := control.ReadChunks(client.Backups.Export(t.Context(), &controlpb.ExportAgentRequest{Agent: "alice"}))
	must(err)
	name, err := client.ImportAgent(t.Context(), &controlpb.ImportAgentRequest{Name: "carol"}, archive)
	must(errors.Join(err, archive.Close()))
	if b, err := os.ReadFile(filepath.Join(home.AgentHome("carol"), "file")); name != "carol" || string(b) != "one" {
		t.Errorf("imported %s with %q, %v", name, b, err)
	}
	if _, err := client.ImportAgent(t.Context(), &controlpb.ImportAgentRequest{Name: "dora"}, strings.NewReader("no archive")); fault.KindOf(err) != fault.Rejected {
		t.Errorf("import of no archive: %v", err)
	}
	_, err = client.Backups.Delete(t.Context(), &controlpb.DeleteSnapshotRequest{Name: "one"})
	must(err)
	var actions []string
	for r, err := range control.Messages(client.ListAudit(t.Context(), &controlpb.ListAuditRequest{Limit: 50})) {
		must(err)
		actions = append(actions, r.Action+" "+r.Subject)
	}
	for _, want := range []string{"snapshot.create one", "snapshot.restore one", "snapshot.delete one", "agent.import carol", "agent.export "} {
		if !slices.Contains(actions, want) {
			t.Errorf("the audit lacks %q: %q", want, actions)
		}
	}
	var kinds []string
	for r, err := range control.Messages(client.Events(t.Context(), &controlpb.EventsRequest{})) {
		must(err)
		kinds = append(kinds, r.Kind)
	}
	for _, want := range []string{"snapshot.created", "snapshot.restored", "snapshot.deleted"} {
		if !slices.Contains(kinds, want) {
			t.Errorf("no event %q: %q", want, kinds)
		}
	}
}
