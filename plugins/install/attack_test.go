package install_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/install"
)

// Links and files in the place of a plugin are moved aside or refused, and nothing is written
// through them.
func TestPlanted(t *testing.T) {
	for _, tc := range []struct {
		name    string
		plant   func(home, victim string) error
		refused bool
	}{
		{"a link in the place of the folder", func(home, victim string) error {
			return os.Symlink(victim, filepath.Join(home, "plugins", "data-tools"))
		}, false},
		{"a file in its place", func(home, _ string) error {
			return os.WriteFile(filepath.Join(home, "plugins", "data-tools"), []byte("mine"), 0o644)
		}, false},
		{"a link in the place of a file", func(home, victim string) error {
			dir := filepath.Join(home, "plugins", "data-tools")
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			return os.Symlink(filepath.Join(victim, "precious"), filepath.Join(dir, "helper.sh"))
		}, false},
		{"a link on the way to a file", func(home, victim string) error {
			dir := filepath.Join(home, "plugins", "data-tools")
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			return os.Symlink(victim, filepath.Join(dir, "only-1"))
		}, true},
		{"a link in the place of all plugins", func(home, victim string) error {
			if err := os.Remove(filepath.Join(home, "plugins")); err != nil {
				return err
			}
			return os.Symlink(victim, filepath.Join(home, "plugins"))
		}, true},
		{"a folder that cannot be removed, kept from before", func(home, _ string) error {
			dir := filepath.Join(home, "plugins", ".data-tools.before")
			if err := os.MkdirAll(filepath.Join(dir, "deep"), 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "deep", "a"), nil, 0o644)
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			a := w.agent("alice")
			i, _ := w.open(a)
			victim := filepath.Join(w.dir, "victim")
			w.write(filepath.Join(victim, "precious"), "precious", 0o644)
			if err := os.MkdirAll(filepath.Join(a.Home, "plugins"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := tc.plant(a.Home, victim); err != nil {
				t.Fatal(err)
			}
			_, err := i.Install(t.Context(), a, recipe("1"), install.How{})
			if (err != nil) != tc.refused {
				t.Errorf("%v", err)
			}
			if !tc.refused {
				if err := i.Uninstall(t.Context(), a, dataTools, "a test"); err != nil {
					t.Error(err)
				}
				if left := w.tree(a); left != "" {
					t.Errorf("left: %s", left)
				}
			}
			list, err := os.ReadDir(victim)
			text, failed := os.ReadFile(filepath.Join(victim, "precious"))
			if err != nil || failed != nil || len(list) != 1 || string(text) != "precious" {
				t.Errorf("the victim has %v, %q: %v", list, text, failed)
			}
		})
	}
}

// Arguments reach a command unchanged, and nothing in them is run.
func TestHostileArguments(t *testing.T) {
	w := newWorld(t)
	a := w.agent("alice")
	i, registry := w.open(a)
	r := recipe("1")
	r.Tools[0].Run = `printf '%s' "$PARAM_FILE"`
	r.Tools[0].Parameters["count"] = plugins.Param{Type: plugins.Array}
	if _, err := i.Install(t.Context(), a, r, install.How{}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`'; touch pwned; '`, `"; touch pwned; "`, "$(touch pwned)", "`touch pwned`", "a\nb\n; touch pwned\n", `\`, `$PATH`, "-rf", "*", "é\u202e", strings.Repeat("x", 90_000),
	} {
		e := call(t, registry, a, "data-tools_look", map[string]any{"file": text, "count": []any{}})
		result, _ := e["result"].(map[string]any)
		if got, _ := result["stdout"].(string); e["ok"] != true || got != text && len(text) < 50_000 || len(got) == 0 {
			t.Errorf("%.40q: %.200v", text, e)
		}
	}
	if tree := w.tree(a); strings.Contains(tree, "pwned") {
		t.Errorf("something was run:\n%s", tree)
	}
	for _, tc := range []struct{ text, why string }{
		{"a\x00b", "NUL"}, {strings.Repeat("x", 200_000), "has 200000 bytes"},
	} {
		if e := call(t, registry, a, "data-tools_look", map[string]any{"file": tc.text, "count": []any{}}); e["kind"] != "invalid_args" || e["field"] != "file" || !strings.Contains(e["message"].(string), tc.why) {
			t.Errorf("%.20q: %.300v", tc.text, e)
		}
	}
}

// Tools follow their recipe: types, required arguments, choices and output.
func TestToolRules(t *testing.T) {
	w := newWorld(t)
	a := w.agent("alice")
	i, registry := w.open(a)
	parsed, err := plugins.Parse([]byte(`{"name": "rules", "description": "Rules", "tools": [
		{"id": "echo", "description": "Echoes", "run": "env | grep -E '^(PARAM_|OSAURUS_PLUGIN|MAY)' | sort; pwd", "parameters": {
			"text": {"type": "string"}, "number": {"type": "number", "default": "1.5"}, "whole": {"type": "integer", "required": false},
			"yes": {"type": "boolean", "default": "true"}, "mode": {"type": "string", "enum": ["fast", "slow"], "default": "slow"}, "size": {"type": "integer", "enum": ["1", "2"], "default": "1"},
			"list": {"type": "array", "required": false}, "object": {"type": "object", "required": false}}},
		{"id": "json", "description": "Answers JSON", "output": "json", "run": "cat answer"},
		{"id": "fails", "description": "Fails", "run": "echo out; echo err >&2; exit 7"}
		,{"id": "long", "description": "d", "output": "json", "run": "printf '\"'; head -c 60000 /dev/zero | tr '\\0' x; printf '\"'"},
		{"id": "loud", "description": "d", "output": "json", "run": "head -c 60000 /dev/zero | tr '\\0' x >&2; echo '[1]'"}
	], "files": {"answer": "{\"rows\": [1, 2.50]}"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Install(t.Context(), a, parsed, install.How{}); err != nil {
		t.Fatal(err)
	}
	out := func(arguments map[string]any) string {
		t.Helper()
		e := call(t, registry, a, "rules_echo", arguments)
		result, ok := e["result"].(map[string]any)
		if !ok {
			t.Fatalf("%v", e)
		}
		return result["stdout"].(string)
	}
	folder := filepath.Join(a.Home, "plugins", "rules")
	if got, want := out(map[string]any{"text": "a"}), "MAY=rules false\nOSAURUS_PLUGIN=rules\nPARAM_MODE=slow\nPARAM_NUMBER=1.5\nPARAM_SIZE=1\nPARAM_TEXT=a\nPARAM_YES=true\n"+folder+"\n"; got != want {
		t.Errorf("%s", got)
	}
	got := out(map[string]any{"text": "a", "number": "2", "whole": 12345678901234, "yes": "no", "mode": "FAST", "size": "2", "list": []any{1, "b"}, "object": map[string]any{"k": "<"}})
	for _, want := range []string{"PARAM_NUMBER=2\n", "PARAM_WHOLE=12345678901234\n", "PARAM_YES=false\n", "PARAM_MODE=fast\n", "PARAM_SIZE=2\n", "PARAM_LIST=[1,\"b\"]\n", "PARAM_OBJECT={\"k\":"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	for field, arguments := range map[string]map[string]any{
		"text": {}, "mode": {"text": "a", "mode": "other"}, "size": {"text": "a", "size": 3}, "whole": {"text": "a", "whole": 1.5}, "more": {"text": "a", "more": 1},
	} {
		if e := call(t, registry, a, "rules_echo", arguments); e["kind"] != "invalid_args" || e["field"] != field {
			t.Errorf("%s: %v", field, e)
		}
	}
	if e := call(t, registry, a, "rules_json", nil); e["ok"] != true || e["result"].(map[string]any)["rows"].([]any)[1] != 2.5 {
		t.Errorf("%v", e)
	}
	if err := os.WriteFile(filepath.Join(folder, "answer"), []byte("no JSON"), 0o644); err != nil {
		t.Fatal(err)
	}
	if e := call(t, registry, a, "rules_json", nil); e["kind"] != "execution_error" || e["stdout"] != "no JSON" {
		t.Errorf("%v", e)
	}
	if e := call(t, registry, a, "rules_long", nil); e["kind"] != "execution_error" || !strings.Contains(e["message"].(string), "more than 50000 characters") {
		t.Errorf("clipped JSON: %.500v", e)
	}
	if e := call(t, registry, a, "rules_loud", nil); e["ok"] != true {
		t.Errorf("JSON beside a long stderr: %.500v", e)
	}
	if e := call(t, registry, a, "rules_fails", nil); e["kind"] != "execution_error" || e["exit_code"] != 7.0 || e["stdout"] != "out\n" || e["stderr"] != "err\n" || e["retryable"] != true {
		t.Errorf("%v", e)
	}
	a.Settings.AutonomousExec = false
	if e := call(t, registry, a, "rules_fails", nil); e["kind"] != "rejected" || listed(registry, a) != "" {
		t.Errorf("%v %q", e, listed(registry, a))
	}
}

// A plugin whose tools have names of others is refused before anything is changed.
func TestShadowingTools(t *testing.T) {
	w := newWorld(t)
	a := w.agent("alice")
	i, registry := w.open(a)
	of := func(name, tool string) plugins.Recipe {
		return plugins.Recipe{Name: name, Description: "x", Tools: []plugins.Tool{{ID: plugins.ToolID(tool), Description: "x", Run: "true"}}}
	}
	if _, err := i.Install(t.Context(), a, of("a", "b_c"), install.How{}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []plugins.Recipe{of("sandbox", "exec"), of("sandbox_x", "exec"), of("a_b", "c")} {
		_, err := i.Install(t.Context(), a, r, install.How{})
		if kind := fault.KindOf(err); kind != fault.InvalidArgs && kind != fault.Rejected {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
	if list, _ := i.List(a.ID); len(list) != 1 || listed(registry, a) != "a_b_c" || strings.Count(w.tree(a), "folder") != 1 {
		t.Errorf("%v %q\n%s", list, listed(registry, a), w.tree(a))
	}
}
