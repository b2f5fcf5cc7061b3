package daemon_test

import (
	"fmt"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/tools"
)

// An agent with more plugins than fit into one answer has all of their tools listed, each once and
// in order.
func TestManyTools(t *testing.T) {
	const plugins, each = 200, 8
	home := newHome(t, "home")
	client, end := serve(t, daemon.Options{Home: home})
	created, err := client.Agents.Create(t.Context(), &controlpb.CreateAgentRequest{Name: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Agents.Set(t.Context(), &controlpb.SetAgentRequest{Agent: "alice", Settings: map[string]string{"autonomousExec.enabled": "true"}}); err != nil {
		t.Fatal(err)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	var records []string
	for p := range plugins {
		var list []string
		for n := range each {
			list = append(list, fmt.Sprintf(`{"id": "tool%d", "description": %q, "run": "true", "parameters": {"file": {"type": "string", "description": "A file"}}}`, n, strings.Repeat("Does <this>. ", 100)))
		}
		records = append(records, fmt.Sprintf(`{"plugin": {"name": "plugin %03d", "description": "One of many", "tools": [%s]}, "agentId": %q, "installedAt": "2026-01-02T03:04:05Z", "status": "ready", "sourceContentHash": "h"}`,
			p, strings.Join(list, ","), created.Agent.Id))
	}
	if err := config.WriteFile(home.InstalledPlugins(config.AgentID(created.Agent.Id)), []byte("["+strings.Join(records, ",")+"]")); err != nil {
		t.Fatal(err)
	}
	client, _ = serve(t, daemon.Options{Home: home})
	all, err := client.ListTools(t.Context(), "alice", tools.Full)
	if err != nil {
		t.Fatal(err)
	}
	own, last := 0, ""
	for _, tool := range all {
		if tool.Name <= last {
			t.Errorf("%s comes after %s", tool.Name, last)
		}
		if last = tool.Name; strings.HasPrefix(tool.Name, "plugin-") {
			own++
		}
	}
	if own != plugins*each {
		t.Errorf("%d tools of plugins, want %d", own, plugins*each)
	}
	first, err := client.Tools.List(t.Context(), &controlpb.ListToolsRequest{Agent: "alice"})
	if err != nil || first.Next == "" || len(first.Tools) >= len(all) {
		t.Errorf("all fit into one answer: %v", err)
	}
}
