package main

import (
	"context"
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
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/tools/packages/packagestest"
)

// tryPluginsAfterAll kills the daemon. The next one lists the tools of plugins before a guest runs.
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
	timetest.Eventually(t, "the daemon has ended", func() bool {
		client, err := control.Connect(t.Context(), home, "test")
		if err == nil {
			client.Close()
		}
		return err != nil
	})
	if out := ok(t, "tool", "list", agent); !strings.Contains(out, "\npython-data-tools_analyze_csv") {
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

// An installation succeeds even if the agent's settings cannot be read.
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

// pageRecipe is the unchanged recipe of the desktop app's page.
const pageRecipe = "../../plugins/testdata/python-data-tools.json"

// pandas is the part of the real package that the page's tool uses.
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

// tryPage installs the page's recipe for alice and calls its tool. pip gets packages of these names
// from the test's own index, which ends with the test: the installed plugin works without it.
func tryPage(t *testing.T, home config.Home) {
	ok(t, "config", "set", "secrets=file")
	ok(t, "agent", "set", "alice", "autonomousExec.enabled=true", "network.rules+=allow localhost")
	feed(t, "none", "secret", "set", "alice", "OPENAI_API_KEY")
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
	does(t, "alice", "matplotlib.pyplot", "cd plugins/python-data-tools && python3 -c 'import helpers, seaborn; print(helpers.plt.__name__)'")
}

// pageWorks calls the tool of the page's recipe.
func pageWorks(t *testing.T, agent, after string) {
	t.Helper()
	code, out, stderr := sandbox(t, "tool", "call", agent, "python-data-tools_analyze_csv", "file=/workspace/agents/alice/prices.csv", "--json")
	if code != 0 || !strings.Contains(out, `"stdout":"mean 10.0 1.5\n"`) {
		t.Errorf("after %s the page's recipe: %d, %s%s", after, code, out, stderr)
	}
}
