package install_test

import (
	"strings"
	"testing"

	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/install"
)

// Of output that is too long to be shown whole no part is taken for JSON, and the model hears why. What the
// command writes beside it does not count.
func TestLongJSON(t *testing.T) {
	w := newWorld(t)
	alice := w.agent("alice")
	i, registry := w.open(alice)
	r, err := plugins.Parse([]byte(`{"name": "P", "description": "d", "tools": [
		{"id": "long", "description": "d", "output": "json", "run": "printf '\"'; head -c 60000 /dev/zero | tr '\\0' x; printf '\"'"},
		{"id": "loud", "description": "d", "output": "json", "run": "head -c 60000 /dev/zero | tr '\\0' x >&2; echo '[1]'"},
		{"id": "wrong", "description": "d", "output": "json", "run": "head -c 60000 /dev/zero | tr '\\0' x >&2; echo '[1'"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Install(t.Context(), alice, r, install.How{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"p_long": "more than 50000 characters", "p_wrong": "not one JSON value"} {
		e := call(t, registry, alice, name, nil)
		if message, _ := e["message"].(string); e["ok"] != false || e["kind"] != "execution_error" || !strings.Contains(message, want) {
			t.Errorf("%s: %.500q", name, e["message"])
		}
	}
	if e := call(t, registry, alice, "p_loud", nil); e["ok"] != true {
		t.Errorf("with a long stderr: %.500q", e["message"])
	}
}
