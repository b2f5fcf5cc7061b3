package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/controlpb/controlpbconnect"
	"osaurus-sandbox/internal/fault"
)

// dataTools is a recipe of the shape of the desktop app's page's, with Alpine's names of packages, and a
// setup that leaves something outside of the home folder, which pageRecipe has not.
const dataTools = `{
	"name": "Data Tools", "description": "Data analysis toolkit", "version": "1.0.0", "author": "your-name",
	"dependencies": ["python3", "py3-pip"],
	"setup": "echo set up >> ~/.cache/data-tools",
	"files": {"helpers.py": "import csv\n\ndef rows(path):\n    return list(csv.reader(open(path)))\n", "bin/show": "#!/bin/sh\nprintf '%s' \"$PARAM_TEXT\"\n"},
	"tools": [
		{"id": "analyze_csv", "description": "Load a CSV file and return summary statistics", "parameters": {"file": {"type": "string", "description": "Path to the CSV file"}},
			"run": "cd $HOME/plugins/data-tools && python3 -c \"import helpers; print(len(helpers.rows('$PARAM_FILE')), 'rows')\" && cat ~/.cache/data-tools"},
		{"id": "show", "description": "Show a text", "parameters": {"text": {"type": "string"}}, "run": "bin/show"}
	],
	"secrets": ["DATA_KEY"],
	"permissions": {"network": "none"}
}`

// tryInstalls installs a plugin for alice in the guest that runs, and calls its tools.
func tryInstalls(t *testing.T, home config.Home) {
	ok(t, "config", "set", "secrets=file")
	ok(t, "agent", "set", "alice", "autonomousExec.enabled=true")
	library := filepath.Join(home.Plugins(), "data-tools.json")
	if err := os.WriteFile(library, []byte(dataTools), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := as(t, "alice", "mkdir -p precious && echo kept > precious/a && ln -s ~/precious plugins/data-tools && printf 'a,b\n1,2\n3,4\n' > data.csv"); code != 0 {
		t.Fatal(out)
	}
	out := ok(t, "plugin", "install", "data-tools", "alice", "--without-secrets")
	if !strings.Contains(out, "data-tools_analyze_csv") {
		t.Errorf("%s", out)
	}
	if code, out := as(t, "alice", "ls precious; stat -c '%F %U %a' plugins/data-tools plugins/data-tools/bin/show"); code != 0 ||
		out != "a\ndirectory agent-alice 755\nregular file agent-alice 755" {
		t.Errorf("%d, %s", code, out)
	}
	pluginWorks(t, "alice", "it was installed")
	for _, text := range []string{`'; touch ~/pwned; '`, `"$(touch ~/pwned)"`, "a\nb `touch ~/pwned`"} {
		raw, err := json.Marshal(map[string]string{"text": text})
		if err != nil {
			t.Fatal(err)
		}
		var e struct{ Result struct{ Stdout string } }
		if err := json.Unmarshal([]byte(ok(t, "tool", "call", "alice", "data-tools_show", string(raw), "--json")), &e); err != nil || e.Result.Stdout != text {
			t.Errorf("%q: %q %v", text, e.Result.Stdout, err)
		}
	}
	if code, out := as(t, "alice", "test ! -e pwned && rm plugins/data-tools/helpers.py && echo '#' >> plugins/data-tools/bin/show"); code != 0 {
		t.Error(out)
	}
	if code, out, _ := sandbox(t, "plugin", "verify", "alice"); code != fault.ExitExecution || !strings.Contains(out, "gone: helpers.py; changed: bin/show") {
		t.Errorf("%d, %s", code, out)
	}
	if out := ok(t, "plugin", "verify", "alice", "--mend", "all"); !strings.Contains(out, "mended") {
		t.Errorf("%s", out)
	}
	pluginWorks(t, "alice", "it was mended")
	ok(t, "plugin", "disable", "data-tools", "alice")
	if out := ok(t, "tool", "list", "alice"); strings.Contains(out, "data-tools") {
		t.Errorf("disabled: %s", out)
	}
	ok(t, "plugin", "enable", "data-tools", "alice")
	if out := ok(t, "plugin", "status", "alice"); !strings.Contains(out, "ready, lacks DATA_KEY") {
		t.Errorf("%s", out)
	}

	// Another version that does not install leaves this one as it was.
	if err := os.WriteFile(library, []byte(strings.Replace(dataTools, `"setup": "`, `"setup": "rm -rf bin; echo on purpose >&2; exit 3; `, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := sandbox(t, "plugin", "update", "data-tools", "alice", "--without-secrets"); code != fault.ExitExecution || !strings.Contains(stderr, "setup") || !strings.Contains(stderr, "on purpose") {
		t.Errorf("%d, %s", code, stderr)
	}
	pluginWorks(t, "alice", "its update failed")
	if out := ok(t, "plugin", "status", "alice"); !strings.Contains(out, "failed at setup") {
		t.Errorf("%s", out)
	}
}

// pluginWorks calls a tool that needs all that was installed: files, packages, and what
// the setup has left.
func pluginWorks(t *testing.T, agent, after string) {
	t.Helper()
	code, out, stderr := sandbox(t, "tool", "call", agent, "data-tools_analyze_csv", "file=../../data.csv", "--json")
	var e struct{ Result struct{ Stdout string } }
	if err := json.Unmarshal([]byte(out), &e); err != nil || code != 0 || e.Result.Stdout != "3 rows\nset up\n" {
		t.Errorf("after %s: %d, %s%s, %v", after, code, out, stderr, err)
	}
}

// tryPluginsAfterAll kills the daemon, whose successor lists the tools of plugins before
// any guest runs, and then removes the plugin from an agent.
func tryPluginsAfterAll(t *testing.T, home config.Home, agent string) {
	client, err := control.Connect(t.Context(), home, "test")
	if err != nil {
		t.Fatal(err)
	}
	hello, err := client.Hello(t.Context())
	client.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(int(hello.Pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		client, err := control.Connect(t.Context(), home, "test")
		if err == nil {
			client.Close()
		}
		return err != nil
	})
	if out := ok(t, "tool", "list", agent); !strings.Contains(out, "\ndata-tools_analyze_csv") || !strings.Contains(out, "\npython-data-tools_analyze_csv") {
		t.Errorf("%s", out)
	}
	if client, err = control.Connect(t.Context(), home, "test"); err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if status, err := client.Status(t.Context(), &controlpb.StatusRequest{}); err != nil || status.Status.State == "running" {
		t.Errorf("%v %v", status, err)
	}
}

// A plugin that is installed is so whether or not its agent can be looked at.
func TestPluginInstalledWithoutNote(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle(controlpbconnect.NewInstallsHandler(installing{}))
	mux.Handle(controlpbconnect.NewAgentsHandler(controlpbconnect.UnimplementedAgentsHandler{}))
	t.Setenv(config.HomeVariable, string(standIn(t, mux)))
	if code, out, stderr := sandbox(t, "plugin", "install", "clipper", "alice"); code != 0 || !strings.Contains(out, "alice has clipper") || !strings.Contains(stderr, "lacks the secret KEY") {
		t.Errorf("%d, %s%s", code, out, stderr)
	}
}

type installing struct {
	controlpbconnect.UnimplementedInstallsHandler
}

func (installing) Install(_ context.Context, r *controlpb.InstallPluginRequest, stream *connect.ServerStream[controlpb.InstallPluginResponse]) error {
	return stream.Send(&controlpb.InstallPluginResponse{Plugin: &controlpb.InstalledPlugin{
		Agent: r.Agent, Plugin: r.Plugin, Tools: []string{"clip"}, WithoutSecrets: []string{"KEY"},
	}})
}
