package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

// watcher is a plugin that uses all that a recipe may declare, and tries what it may not.
const watcher = `{
  "name": "Watcher", "description": "Watches.", "secrets": ["TOOL_KEY"],
  "tools": [
    {"id": "say", "description": "Says.", "parameters": {"text": {"type": "string"}}, "run": "sh say.sh"},
    {"id": "remember", "description": "Remembers.", "run": "osaurus-host config set last 42 && osaurus-host config get last"},
    {"id": "undeclared", "description": "Reads a secret that it did not declare.", "run": "osaurus-host secrets get OTHER_KEY"},
    {"id": "infer", "description": "Asks a model without leave.", "run": "osaurus-host inference chat -m hello"},
    {"id": "shed", "description": "Asks one as nobody.", "run": "cd / && env -u OSAURUS_PLUGIN osaurus-host inference chat -m hello"},
    {"id": "shout", "description": "Tells what it may not.", "run": "osaurus-host events emit other.thing"},
    {"id": "another", "description": "Reads another plugin's settings.", "run": "OSAURUS_PLUGIN=mail osaurus-host config get last"},
    {"id": "devices", "description": "Lists its networks.", "run": "sed -n 's/:.*//p' /proc/net/dev | tr -d ' \\n'"}
  ],
  "daemon": {"command": "echo $$ >~/daemon.pid; osaurus-host events emit watcher.up '{\"from\":\"daemon\"}'; exec sleep 1000"},
  "events": {"subscribe": [{"topic": "watcher.*", "run": "cat >heard.new && mv heard.new heard"}], "emit": ["watcher.*"]}
}`

// tryPlugins has an agent write a plugin and register it, through its tools alone, and then call
// it; and makes others by each other way.
func tryPlugins(t *testing.T, home config.Home) {
	ok(t, "config", "set", "secrets=file")
	ok(t, "agent", "set", "alice", "autonomousExec.enabled=true")
	call := func(t *testing.T, tool string, arguments map[string]any) (result map[string]any, e map[string]any) {
		t.Helper()
		text, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		_, out, stderr := sandbox(t, "tool", "call", "alice", tool, string(text), "--json")
		if err := json.Unmarshal([]byte(out), &e); err != nil {
			t.Fatalf("%s: %v in %q, %s", tool, err, out, stderr)
		}
		result, _ = e["result"].(map[string]any)
		return result, e
	}
	const patience = 5 * time.Minute // for what takes a second on a host that has nothing else to do
	done := func(t *testing.T, tool string, arguments map[string]any) map[string]any {
		t.Helper()
		result, e := call(t, tool, arguments)
		if e["ok"] != true {
			t.Fatalf("%s: %v", tool, e)
		}
		return result
	}
	for _, key := range []string{"TOOL_KEY", "OTHER_KEY"} {
		done(t, "sandbox_secret_set", map[string]any{"key": key, "description": "d", "instructions": "i", "value": "hunter-3333-" + key})
	}
	done(t, "sandbox_write_file", map[string]any{"path": "plugins/watcher/plugin.json", "content": watcher})
	done(t, "sandbox_write_file", map[string]any{"path": "plugins/watcher/say.sh", "content": `echo "$PARAM_TEXT with $(osaurus-host secrets get TOOL_KEY | tr -d '\n' | wc -c) and ${#TOOL_KEY}"` + "\n"})
	made := done(t, "sandbox_plugin_register", map[string]any{"plugin_id": "watcher"})
	if list, _ := made["tools"].([]any); made["status"] != "installed" || made["plugin_id"] != "watcher" || len(list) != 8 {
		t.Fatalf("%v", made)
	}
	t.Run("its tools", func(t *testing.T) {
		for tool, want := range map[string]struct {
			arguments map[string]any
			stdout    string
		}{
			"say":      {map[string]any{"text": `"$(id)" 'x'`}, fmt.Sprintf("\"$(id)\" 'x' with %d and %[1]d\n", len("hunter-3333-TOOL_KEY"))},
			"remember": {map[string]any{}, "42\n"},
			"devices":  {map[string]any{}, "lo"},
		} {
			if r := done(t, "watcher_"+tool, want.arguments); r["stdout"] != want.stdout {
				t.Errorf("%s: %v", tool, r)
			}
		}
	})
	t.Run("what it may not", func(t *testing.T) {
		for tool, want := range map[string]string{
			"undeclared": "does not declare it", "infer": "the plugin watcher may not", "shed": "the plugin watcher may not", "shout": "the plugin watcher may not",
			"another": "asked by a program of the plugin watcher",
		} {
			if _, e := call(t, "watcher_"+tool, map[string]any{}); e["ok"] != false || e["kind"] != "execution_error" || !strings.Contains(fmt.Sprint(e["stderr"]), want) {
				t.Errorf("%s: %v", tool, e)
			}
		}
		if code, out := as(t, "alice", "OSAURUS_PLUGIN=watcher osaurus-host config get last"); code != fault.ExitRejected || !strings.Contains(out, "not asked by a program of that plugin") {
			t.Errorf("the agent as the plugin: %d, %s", code, out)
		}
	})
	t.Run("its daemon and what it hears", func(t *testing.T) {
		if code, out := as(t, "alice", "until [ -e plugins/watcher/heard ]; do sleep 0.2; done; cat plugins/watcher/heard; kill -0 $(cat daemon.pid) && echo ' alive'", "--timeout", patience.String()); code != 0 || out != `{"from":"daemon"} alive` {
			t.Errorf("%d, %s", code, out)
		}
		if out := ok(t, "job", "list", "alice"); !strings.Contains(out, "daemon of plugin watcher") {
			t.Errorf("%s", out)
		}
	})
	t.Run("ways", func(t *testing.T) { comeByAllWays(t, home, done) })
	t.Run("whoever looks after the agent is told", func(t *testing.T) {
		if out := ok(t, "events", "--json"); !strings.Contains(out, "plugin.registered") || !strings.Contains(out, "osaurus-sandbox plugin uninstall watcher alice") {
			t.Errorf("%s", out)
		}
	})
	t.Run("and takes it back", func(t *testing.T) {
		ok(t, "plugin", "uninstall", "watcher", "alice")
		if code, _, _ := sandbox(t, "tool", "call", "alice", "watcher_say", "text=x"); code != fault.ExitToolNotFound {
			t.Errorf("its tool: %d", code)
		}
		if code, out := as(t, "alice", "while kill -0 $(cat daemon.pid) 2>/dev/null; do sleep 0.2; done; ls -A plugins", "--timeout", patience.String()); code != 0 || strings.Contains(out, "watcher") {
			t.Errorf("left are %d, %s", code, out)
		}
	})
	ok(t, "agent", "set", "alice", "autonomousExec.enabled=false")
}

// comeByAllWays registers one recipe by each of the four ways: what is kept of it, what the agent
// has, and what it can call then are the same to the byte, but for times and the stamp that says which way.
func comeByAllWays(t *testing.T, home config.Home, done func(*testing.T, string, map[string]any) map[string]any) {
	const id = "same-way"
	const recipe = `{"name": "Same Way", "description": "Greets.", "permissions": {"network": "outbound", "inference": true}, "files": {"a/word": "hi\n"},
		"tools": [{"id": "hi", "description": "Greets.", "run": "cat a/word", "parameters": {"to": {"type": "string", "default": "all"}}}]}`
	var agent struct{ ID config.AgentID }
	if err := json.Unmarshal([]byte(ok(t, "agent", "show", "alice", "--json")), &agent); err != nil {
		t.Fatal(err)
	}
	folder := func() {
		done(t, "sandbox_write_file", map[string]any{"path": "plugins/" + id + "/plugin.json", "content": recipe})
	}
	times, stamps := regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`), regexp.MustCompile(`agent_tool|host_bridge|control_api`)
	hashes := regexp.MustCompile(`[0-9a-f]{64}`) // of what has the stamp in it
	var first string
	for _, way := range []struct {
		name, stamp string
		come        func()
	}{
		{"the agent's tool", "agent_tool", func() { folder(); done(t, "sandbox_plugin_register", map[string]any{"plugin_id": id}) }},
		{"the bridge", "host_bridge", func() {
			if code, out := as(t, "alice", "osaurus-host plugin create <<'END'\n"+recipe+"\nEND"); code != 0 || !strings.Contains(out, `"plugin_id":"`+id+`"`) || !strings.Contains(out, "became") {
				t.Fatalf("%d, %s", code, out)
			}
		}},
		{"the command line", "control_api", func() { folder(); ok(t, "plugin", "register", "alice", id) }},
		{"the API", "control_api", func() {
			client, err := control.Connect(t.Context(), home, "test")
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			r := &controlpb.RegisterPluginRequest{Agent: "alice", From: &controlpb.RegisterPluginRequest_Recipe{Recipe: []byte(recipe)}}
			if _, err := registerPlugin(t.Context(), client, r, showProgress(io.Discard)); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		way.come()
		kept, err := os.ReadFile(filepath.Join(home.Plugins(), id+".json"))
		if err != nil || !strings.Contains(string(kept), way.stamp) {
			t.Errorf("%s is stamped %s, %v", way.name, kept, err)
		}
		has, err := os.ReadFile(home.InstalledPlugins(agent.ID))
		if err != nil {
			t.Fatal(err)
		}
		is := string(kept) + string(has) + ok(t, "tool", "describe", "alice", id+"_hi", "--json")
		for what, name := range map[*regexp.Regexp]string{times: "TIME", stamps: "STAMP", hashes: "HASH"} {
			is = what.ReplaceAllString(is, name)
		}
		if first == "" {
			first = is
		}
		if is != first {
			t.Errorf("by %s it is\n%s\nand by the first way\n%s", way.name, is, first)
		}
		if r := done(t, id+"_hi", map[string]any{}); r["stdout"] != "hi\n" {
			t.Errorf("%s: %v", way.name, r)
		}
		ok(t, "plugin", "uninstall", id, "alice")
		ok(t, "plugin", "remove", id, "--yes")
	}
}
