package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
)

// TestPluginFile runs the commands for authors, which need no daemon.
func TestPluginFile(t *testing.T) {
	t.Setenv("OSAURUS_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	ok(t, "plugin", "init", "Word Count")
	prints(t, "", "plugin", "lint", "--strict", "word-count.json")
	fails(t, fault.ExitRejected, "file exists", "plugin", "init", "word count")
	fails(t, fault.ExitInvalidArgs, "", "plugin", "init", "Wörter")
	if err := os.WriteFile("bad.json", []byte("{\n  \"name\": \"Bad\",\n  \"description\": \"x\",\n  \"tools\": [{\"id\": \"a\", \"description\": \"b\",\n    \"run\": \"cat $PARAM_X\", \"timeout\": \"soon\"}]\n}"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, _ := sandbox(t, "plugin", "lint", "bad.json")
	for _, want := range []string{"bad.json:5:39: error: $.tools[0].timeout: found string, expected a whole number of seconds", "bad.json:5:12: warning: $.tools[0].run: $PARAM_X is split at spaces", "[unquoted-param]\n    Write \"$PARAM_X\", with the quotes."} {
		if code != fault.ExitInvalidArgs || !strings.Contains(out, want) {
			t.Errorf("lint: %d, without %q:\n%s", code, want, out)
		}
	}
	code, out, _ = sandbox(t, "plugin", "lint", "--json", "bad.json")
	var said findings
	if err := json.Unmarshal([]byte(out), &said); code != fault.ExitInvalidArgs || err != nil || len(said.Findings) < 2 || said.Findings[0].Severity != plugins.Fault {
		t.Errorf("lint --json: %d, %v, %s", code, err, out)
	}
	shows(t, "https://json-schema.org/draft/2020-12/schema", "plugin", "schema")
}

// TestPluginLibrary imports, changes and deletes a recipe. No guest runs.
func TestPluginLibrary(t *testing.T) {
	newHome(t, "home")
	t.Chdir(t.TempDir())
	ok(t, "plugin", "init", "Word Count")
	shows(t, "would import word-count; it asks for nothing", "plugin", "import", "word-count.json", "--dry-run")
	shows(t, "imported word-count, revision 1", "plugin", "import", "word-count.json")
	shows(t, "word-count  0.1.0", "plugin", "list")
	shows(t, "word-count_count", "plugin", "show", "word-count")

	// A different recipe of the same name needs --update.
	text := strings.Replace(ok(t, "plugin", "export", "word-count"), "0.1.0", "0.2.0", 1)
	if code, _, stderr := fed(t, text, "plugin", "import", "-"); code != fault.ExitRejected || !strings.Contains(stderr, "--update") {
		t.Errorf("import of another: %d, %s", code, stderr)
	}
	if code, out, stderr := fed(t, text, "plugin", "import", "-", "--update"); code != 0 || !strings.Contains(out, "revision 2") {
		t.Errorf("import --update: %d, %s%s", code, out, stderr)
	}
	shows(t, "-  \"version\": \"0.1.0\"\n+  \"version\": \"0.2.0\"\n", "plugin", "diff", "word-count")
	ok(t, "plugin", "rollback", "word-count")
	prints(t, "", "plugin", "diff", "word-count", "1")
	if out := ok(t, "plugin", "history", "word-count"); !strings.Contains(out, "current") || strings.Count(out, "\n") != 4 {
		t.Errorf("history: %s", out)
	}
	ok(t, "plugin", "duplicate", "word-count", "Line Count")
	fails(t, fault.ExitInvalidArgs, "", "plugin", "remove", "line-count")
	ok(t, "plugin", "remove", "line-count", "--yes")
	fails(t, fault.ExitNotFound, "", "plugin", "show", "line-count")
	// A recipe may be larger than other requests.
	large := plugins.Skeleton("Large")
	for _, name := range []plugins.FilePath{"a", "b", "c"} {
		large.Files[name] = strings.Repeat("0123456789abcde\n", plugins.MaxFile/16)
	}
	encoded, err := large.Encode()
	if err != nil {
		t.Fatal(err)
	}
	feed(t, string(encoded), "plugin", "import", "-")
	if again, err := plugins.Parse([]byte(ok(t, "plugin", "export", "large"))); err != nil || again.Files["c"] != large.Files["c"] {
		t.Errorf("a large recipe is not what it was: %v", err)
	}
	fails(t, fault.ExitRejected, "", "plugin", "import", "https://127.0.0.1/x.json")
}

// plugin edit keeps only valid recipes.
func TestPluginEdit(t *testing.T) {
	home := newHome(t, "home")
	t.Chdir(t.TempDir())
	t.Setenv("VISUAL", "")
	t.Setenv("TMPDIR", t.TempDir())
	ok(t, "plugin", "init", "Word Count")
	ok(t, "plugin", "import", "word-count.json")

	t.Setenv("EDITOR", "true")
	prints(t, "", "plugin", "edit", "word-count")
	t.Setenv("EDITOR", "sed -i s/0.1.0/0.9.0/")
	prints(t, "kept word-count, revision 2\n", "plugin", "edit", "word-count")
	t.Setenv("EDITOR", `sed -i 's/"id": "count"/"id": "no such id!"/'`)
	code, _, stderr := sandbox(t, "plugin", "edit", "word-count")
	if code != fault.ExitInvalidArgs || !strings.Contains(stderr, "$.tools[0].id") || !strings.Contains(stderr, "what you wrote is in") {
		t.Errorf("edited into no recipe: %d, %s", code, stderr)
	}
	if out := ok(t, "plugin", "history", "word-count"); strings.Count(out, "\n") != 3 {
		t.Errorf("what is no recipe was kept: %s", out)
	}
	t.Setenv("EDITOR", "false")
	fails(t, fault.ExitExecution, "", "plugin", "edit", "word-count")
	t.Setenv("EDITOR", `sed -i 's/"name": "Word Count"/"name": "Words"/'`)
	fails(t, fault.ExitInvalidArgs, "plugin duplicate word-count", "plugin", "edit", "word-count")

	// plugin edit also repairs a broken file.
	if err := os.WriteFile(filepath.Join(home.Plugins(), "word-count.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := sandbox(t, "plugin", "list"); code != 0 || !strings.Contains(stderr, "broken: ") {
		t.Errorf("list with a broken file: %d, %s", code, stderr)
	}
	t.Setenv("EDITOR", `f() { printf '{"name": "Word Count", "description": "repaired", "tools": [{"id": "t", "description": "d", "run": "true"}]}' > "$1"; }; f`)
	shows(t, "kept word-count", "plugin", "edit", "word-count")
}
