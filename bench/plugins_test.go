//go:build linux

package bench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
)

const (
	manyPlugins = 200
	listTurns   = 21
)

// BenchmarkPluginTool compares a plugin's tool with the same command through sandbox_exec.
func BenchmarkPluginTool(b *testing.B) {
	const command = "echo hello"
	w := newWorld(b)
	w.may()
	recipe := fmt.Sprintf(`{"name": "Quick", "description": "Is quick.", "tools": [{"id": "run", "description": "Runs.", "run": %q}], "permissions": {"network": "outbound"}}`, command)
	if err := config.WriteFile(filepath.Join(w.home.Plugins(), "quick.json"), []byte(recipe)); err != nil {
		b.Fatal(err)
	}
	stream, err := w.client.Installs.Install(b.Context(), &controlpb.InstallPluginRequest{Plugin: "quick", Agent: "alice"})
	if err != nil {
		b.Fatal(err)
	}
	for stream.Receive() {
	}
	if err := stream.Err(); err != nil {
		b.Fatal(err)
	}
	var plugin, exec []time.Duration
	for turn := range execTurns + 1 {
		var p, e []time.Duration
		for range execPerTurn {
			began := time.Now()
			w.ask("quick_run", "{}")
			p = append(p, time.Since(began))
		}
		for range execPerTurn {
			began := time.Now()
			w.ask("sandbox_exec", fmt.Sprintf(`{"command": %q}`, command))
			e = append(e, time.Since(began))
		}
		if turn > 0 {
			plugin, exec = append(plugin, p...), append(exec, e...)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(median(plugin).Microseconds())/1000, "plugin-ms")
	b.ReportMetric(float64(median(exec).Microseconds())/1000, "exec-ms")
	b.ReportMetric(median(plugin).Seconds()/median(exec).Seconds(), "plugin/exec")
}

// BenchmarkManyPlugins lists the tools of an agent with two hundred plugins, and has all of their files
// looked at. The first call in a guest waits for such a look.
func BenchmarkManyPlugins(b *testing.B) {
	home := newHome(b)
	w := serve(b, home)
	agent := w.create("alice")
	w.may()
	if err := w.end(); err != nil {
		b.Fatal(err)
	}
	var records []string
	for n := range manyPlugins {
		records = append(records, fmt.Sprintf(`{"plugin": {"name": "plugin %03d", "description": "One of many", "files": {"a.txt": "a", "b/c.txt": "c", "run.sh": "echo %d"},
			"tools": [{"id": "run", "description": "Runs what there is to run of it.", "run": "sh run.sh", "parameters": {"file": {"type": "string", "description": "A file", "default": ""}}}]},
			"agentId": %q, "installedAt": "2026-01-02T03:04:05Z", "status": "ready", "sourceContentHash": "h"}`, n, n, agent.Id))
		for name, text := range map[string]string{"a.txt": "a", "b/c.txt": "c", "run.sh": fmt.Sprintf("echo %d", n)} {
			path := filepath.Join(home.AgentHome("alice"), "plugins", fmt.Sprintf("plugin-%03d", n), name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := config.WriteFile(home.InstalledPlugins(config.AgentID(agent.Id)), []byte("["+strings.Join(records, ",")+"]")); err != nil {
		b.Fatal(err)
	}
	w = serve(b, home)
	var list []time.Duration
	for range listTurns {
		began := time.Now()
		all, err := w.client.Tools.List(b.Context(), &controlpb.ListToolsRequest{Agent: "alice"})
		if err != nil || len(all.Tools) < manyPlugins {
			b.Fatalf("%d tools, %v", len(all.GetTools()), err)
		}
		list = append(list, time.Since(began))
	}
	w.up()
	began := time.Now()
	w.ask("plugin-000_run", "{}")
	first := time.Since(began)
	began = time.Now()
	w.ask("plugin-001_run", "{}")
	second := time.Since(began)
	began = time.Now()
	r, err := w.client.Installs.Verify(b.Context(), &controlpb.VerifyPluginsRequest{Agent: "alice", Repair: "nothing"})
	if err != nil || len(r.Reports) != manyPlugins {
		b.Fatalf("%v %v", r, err)
	}
	for _, report := range r.Reports {
		if len(report.Problems) > 0 {
			b.Fatalf("%v", report)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(time.Since(began).Seconds(), "verify-s")
	b.ReportMetric(first.Seconds(), "first-call-s")
	b.ReportMetric(second.Seconds(), "second-call-s")
	b.ReportMetric(float64(median(list).Microseconds())/1000, "list-ms")
}
