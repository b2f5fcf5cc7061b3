package daemon_test

import (
	"fmt"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
)

// Agents with more plugins than fit into one answer have all of them listed, each once and in
// order, and whose plugins cannot be read is said once.
func TestManyInstalled(t *testing.T) {
	const each = 80
	home := newHome(t, "home")
	client, end := serve(t, daemon.Options{Home: home})
	for _, name := range []string{"alice", "bob", "carol"} {
		created, err := client.Agents.Create(t.Context(), &controlpb.CreateAgentRequest{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		id := created.Agent.Id
		var records []string
		for n := range each {
			records = append(records, fmt.Sprintf(`{"plugin": {"name": "plugin %03d", "description": "One of many"}, "agentId": %q, "installedAt": "2026-01-02T03:04:05Z", "status": "ready", "sourceContentHash": "h",
				"failure": {"step": "setup", "kind": "execution_error", "message": %q, "time": "2026-01-02T03:04:05Z"}}`, n, id, strings.Repeat("no such file ", 600)))
		}
		text := "[" + strings.Join(records, ",") + "]"
		if name == "bob" {
			text = "["
		}
		if err := config.WriteFile(home.InstalledPlugins(config.AgentID(id)), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	client, _ = serve(t, daemon.Options{Home: home})
	for agent, want := range map[string]struct {
		agents []string
		broken int
	}{"": {[]string{"alice", "carol"}, 1}, "carol": {[]string{"carol"}, 0}} {
		all, err := client.ListInstalled(t.Context(), agent)
		if err != nil {
			t.Fatal(err)
		}
		var listed, wanted []string
		for _, p := range all.Plugins {
			listed = append(listed, p.Agent+" "+p.Plugin)
		}
		for _, name := range want.agents {
			for n := range each {
				wanted = append(wanted, fmt.Sprintf("%s plugin-%03d", name, n))
			}
		}
		if strings.Join(listed, "\n") != strings.Join(wanted, "\n") || len(all.Broken) != want.broken {
			t.Errorf("of %q %d are listed, want %d; broken are %v", agent, len(listed), len(wanted), all.Broken)
		}
		first, err := client.Installs.List(t.Context(), &controlpb.ListInstalledRequest{Agent: agent})
		if err != nil || first.Next == nil || len(first.Plugins) >= len(all.Plugins) {
			t.Errorf("of %q all fit into one answer: %v", agent, err)
		}
	}
}
