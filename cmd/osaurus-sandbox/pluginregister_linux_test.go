package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
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
func tryPlugins(t *testing.T) {
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
		if code, out := as(t, "alice", "OSAURUS_PLUGIN=watcher osaurus-host config get last"); code != exitRejected || !strings.Contains(out, "not asked by a program of that plugin") {
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
	t.Run("other ways", func(t *testing.T) {
		const recipe = `{"name": "%s", "description": "Greets.", "permissions": {"network": "outbound", "inference": true}, "tools": [{"id": "hi", "description": "Greets.", "run": "echo hi"}]}`
		code, out := as(t, "alice", "osaurus-host plugin create <<'END'\n"+fmt.Sprintf(recipe, "by-bridge")+"\nEND")
		if code != 0 || !strings.Contains(out, `"plugin_id":"by-bridge"`) || !strings.Contains(out, "became") {
			t.Errorf("%d, %s", code, out)
		}
		done(t, "sandbox_write_file", map[string]any{"path": "plugins/by-hand/plugin.json", "content": fmt.Sprintf(recipe, "by-hand")})
		if out := ok(t, "plugin", "register", "alice", "by-hand"); !strings.Contains(out, "by-hand_hi") {
			t.Errorf("%s", out)
		}
		for _, plugin := range []string{"by-bridge", "by-hand"} {
			if r := done(t, plugin+"_hi", map[string]any{}); r["stdout"] != "hi\n" {
				t.Errorf("%s: %v", plugin, r)
			}
		}
	})
	t.Run("whoever looks after the agent is told", func(t *testing.T) {
		if out := ok(t, "events", "--json"); !strings.Contains(out, "plugin.registered") || !strings.Contains(out, "osaurus-sandbox plugin uninstall watcher alice") {
			t.Errorf("%s", out)
		}
	})
	t.Run("and takes it back", func(t *testing.T) {
		ok(t, "plugin", "uninstall", "watcher", "alice")
		if code, _, _ := sandbox(t, "tool", "call", "alice", "watcher_say", "text=x"); code != exitToolNotFound {
			t.Errorf("its tool: %d", code)
		}
		if code, out := as(t, "alice", "while kill -0 $(cat daemon.pid) 2>/dev/null; do sleep 0.2; done; ls -A plugins", "--timeout", patience.String()); code != 0 || strings.Contains(out, "watcher") {
			t.Errorf("left are %d, %s", code, out)
		}
	})
	ok(t, "agent", "set", "alice", "autonomousExec.enabled=false")
}
