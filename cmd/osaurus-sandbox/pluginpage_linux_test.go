package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/tools/packages/packagestest"
)

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
