package tools

import (
	"log/slog"
	"strings"
	"testing"

	"osaurus-sandbox/config"
)

func named(names ...Name) (list []Tool) {
	for _, name := range names {
		list = append(list, echo(Spec{Name: name, Gate: Exec}, nil))
	}
	return list
}

// Only its agent lists and calls an assigned tool. Assign replaces all tools of a plugin.
func TestAssign(t *testing.T) {
	r := NewRegistry(slog.New(slog.DiscardHandler), named("everybodys")...)
	bob := alice()
	bob.ID = "B"
	listed := func(c Call) string {
		var names []string
		for _, tool := range r.List(c.Agent, Full) {
			names = append(names, string(tool.Name))
		}
		return strings.Join(names, " ")
	}
	assign := func(plugin config.PluginID, names ...Name) {
		t.Helper()
		changed := r.Changed()
		if err := r.Assign("A", plugin, named(names...)...); err != nil {
			t.Fatal(err)
		}
		<-changed
	}
	assign("one", "one_a", "one_b")
	assign("two", "two_a")
	if a, b := listed(alice()), listed(bob); a != "everybodys one_a one_b two_a" || b != "everybodys" {
		t.Errorf("alice has %s, bob %s", a, b)
	}
	if got := answer(t, r, alice(), "one_a", `{"text":"x"}`); !strings.HasPrefix(got, `{"ok":true`) {
		t.Error(got)
	}
	if got := answer(t, r, bob, "one_a", `{"text":"x"}`); !strings.Contains(got, `"kind":"tool_not_found"`) {
		t.Error(got)
	}
	assign("one", "one_c")
	assign("two")
	if a := listed(alice()); a != "everybodys one_c" {
		t.Errorf("alice has %s", a)
	}
}
