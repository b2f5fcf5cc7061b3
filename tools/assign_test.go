package tools

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

func named(names ...Name) (list []Tool) {
	for _, name := range names {
		list = append(list, echo(Spec{Name: name, Gate: Exec}, nil))
	}
	return list
}

// What is assigned to an agent is listed for and called by that one alone, and is
// replaced as a whole.
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

// A plugin takes no name that is somebody else's, and a refused one changes
// nothing.
func TestAssignShadows(t *testing.T) {
	r := NewRegistry(slog.New(slog.DiscardHandler), named("sandbox_exec", "share_artifact")...)
	if err := r.Assign("A", "a", named("a_b_c")...); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		list []Tool
		kind fault.Kind
	}{
		{"a tool of the sandbox", named("x_fine", "sandbox_exec"), fault.Rejected},
		{"one that is yet to come", named("sandbox_time_travel"), fault.Rejected},
		{"another tool of all agents", named("share_artifact"), fault.Rejected},
		{"one of another plugin", named("a_b_c"), fault.Rejected},
		{"its own, twice", named("x_a", "x_a"), fault.InvalidArgs},
		{"no name", named("x a"), fault.InvalidArgs},
		{"too many", slices.Repeat(named("x_a"), maxTools), fault.Rejected},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err, tried := r.Free("A", "x", tc.list...), r.Assign("A", "x", tc.list...)
			if fault.KindOf(err) != tc.kind || fault.KindOf(tried) != tc.kind || fault.AdviceOf(err) == "" {
				t.Errorf("%v, %v", err, tried)
			}
		})
	}
	if list := r.List(alice().Agent, Full); len(list) != 3 {
		t.Errorf("%d tools", len(list))
	}
	if err := r.Assign("B", "x", named("a_b_c")...); err != nil {
		t.Errorf("for another agent: %v", err)
	}
}

// The list of an agent with two hundred plugins is quick, also beside others that
// have as many.
func TestListIsQuick(t *testing.T) {
	const plugins, limit = 200, 50 * time.Millisecond
	r := NewRegistry(slog.New(slog.DiscardHandler))
	for _, agent := range []config.AgentID{"A", "B", "C", "D", "E", "F", "G", "H"} {
		for i := range plugins {
			id := config.PluginID(fmt.Sprint("plugin-", i))
			if err := r.Assign(agent, id, named(Name(id+"_first"), Name(id+"_second"), Name(id+"_third"))...); err != nil {
				t.Fatal(err)
			}
		}
	}
	var took time.Duration
	for range 1000 { // the host may do something else at any moment
		began := time.Now()
		list := r.List(alice().Agent, Full)
		for _, tool := range list { // as whoever asks is answered
			if _, _, err := tool.Schemas(); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(list); n != 3*plugins {
			t.Fatalf("%d tools", n)
		}
		if took = time.Since(began); took <= limit {
			return
		}
	}
	t.Errorf("it takes %v", took)
}
