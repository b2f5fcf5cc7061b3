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
	"osaurus-sandbox/tools/packages/packagestest"
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
	if out := ok(t, "plugin", "verify", "alice", "--repair", "all"); !strings.Contains(out, "repaired") {
		t.Errorf("%s", out)
	}
	pluginWorks(t, "alice", "it was repaired")
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
	if err := json.Unmarshal([]byte(out), &e); err != nil || code != 0 || !strings.HasPrefix(e.Result.Stdout, "3 rows\nset up\n") {
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

// pageRecipe is the recipe of the desktop app's page, word for word.
const pageRecipe = "../../plugins/testdata/python-data-tools.json"

// pandas is as much of the real one as the page's tool uses. It stands in for Python's index, not for pip.
const pandas = `import csv

class DataFrame:
    def __init__(self, rows):
        self.rows = rows

    def describe(self):
        return DataFrame([["mean", *(sum(map(float, column)) / len(column) for column in zip(*self.rows[1:]))]])

    def to_string(self):
        return "\n".join(" ".join(map(str, row)) for row in self.rows)

def read_csv(path):
    return DataFrame(list(csv.reader(open(path))))
`

// tryPage installs the page's recipe for alice, and calls its tool. Only the network is not the real one: pip
// gets packages that have these names from an index of the test's own, which ends with this: what the plugin
// has it keeps without it.
func tryPage(t *testing.T, home config.Home) {
	ok(t, "config", "set", "secrets=file")
	ok(t, "agent", "set", "alice", "autonomousExec.enabled=true", "hostServices=true")
	if code, _, stderr := fed(t, "none", "secret", "set", "alice", "OPENAI_API_KEY"); code != 0 {
		t.Fatal(stderr)
	}
	index := packagestest.NewPip(t,
		packagestest.Package{Name: "pandas", Files: map[string]string{"pandas.py": pandas}},
		packagestest.Package{Name: "matplotlib", Files: map[string]string{"matplotlib/__init__.py": "def use(backend): pass\n", "matplotlib/pyplot.py": ""}},
		packagestest.Package{Name: "seaborn", Files: map[string]string{"seaborn.py": ""}})
	for name, text := range map[string]string{".config/pip/pip.conf": index.Config(t, packagestest.ToGuests), "prices.csv": "price,weight\n12,1\n8,2\n"} {
		path := filepath.Join(home.AgentHome("alice"), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ok(t, "plugin", "import", pageRecipe)
	ok(t, "plugin", "install", "python-data-tools", "alice")
	pageWorks(t, "alice", "it was installed")
	if code, out := as(t, "alice", "cd plugins/python-data-tools && python3 -c 'import helpers, seaborn; print(helpers.plt.__name__)'"); code != 0 || out != "matplotlib.pyplot" {
		t.Errorf("its file: %d, %s", code, out)
	}
}

// pageWorks calls the tool of the page's recipe.
func pageWorks(t *testing.T, agent, after string) {
	t.Helper()
	code, out, stderr := sandbox(t, "tool", "call", agent, "python-data-tools_analyze_csv", "file=/workspace/agents/"+agent+"/prices.csv", "--json")
	if code != 0 || !strings.Contains(out, `"stdout":"mean 10.0 1.5\n"`) {
		t.Errorf("after %s the page's recipe: %d, %s%s", after, code, out, stderr)
	}
}
