package services

import (
	"fmt"
	"strings"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/store/storetest"
)

func TestPluginConfig(t *testing.T) {
	db, who := storetest.New(t, "alice", "bob")
	c, alice, bob := NewPluginConfig(db), who[0], who[1]
	other := alice
	other.Plugin = "rss"
	for i, w := range []bridge.Caller{alice, other, bob, alice} { // alice's again: the last one counts
		if err := c.Set(t.Context(), w, "last_sync", fmt.Sprint("value ", i)); err != nil {
			t.Fatal(err)
		}
	}
	strange := "\x00é\n\"'" + strings.Repeat("x", MaxConfigValue-7)
	if err := c.Set(t.Context(), alice, "strange", strange); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		who  bridge.Caller
		key  bridge.ConfigKey
		want string
	}{{alice, "last_sync", "value 3"}, {other, "last_sync", "value 1"}, {bob, "last_sync", "value 2"}, {alice, "strange", strange}} {
		if got, err := c.Get(t.Context(), tc.who, tc.key); err != nil || got != tc.want {
			t.Errorf("%s of %s for %s: %.40q, %v", tc.key, tc.who.Plugin, tc.who.Name, got, err)
		}
	}
	if _, err := c.Get(t.Context(), bob, "strange"); fault.KindOf(err) != fault.NotFound || fault.AdviceOf(err) == "" {
		t.Errorf("bob's: %v", err)
	}
	nameless := alice
	nameless.Plugin = ""
	for what, err := range map[string]error{
		"no plugin": c.Set(t.Context(), nameless, "k", "v"),
		"too long":  c.Set(t.Context(), alice, "last_sync", strings.Repeat("x", MaxConfigValue+1)),
	} {
		if fault.KindOf(err) != fault.InvalidArgs || fault.AdviceOf(err) == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	storetest.Delete(t, db, alice)
	if n := storetest.Count(t, db, "SELECT count(*) FROM plugin_config"); n != 1 {
		t.Errorf("%d values are left, want bob's", n)
	}
	if err := c.Set(t.Context(), alice, "late", "v"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("of an agent that is gone: %v", err)
	}
}

func TestPluginConfigLimit(t *testing.T) {
	db, who := storetest.New(t, "alice", "bob")
	c, alice := NewPluginConfig(db), who[0]
	c.keys = 3
	for _, plugin := range []config.PluginID{"a", "b", "c"} { // it is one bound for all of them
		alice.Plugin = plugin
		if err := c.Set(t.Context(), alice, "k", "v"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Set(t.Context(), alice, "k", "another value"); err != nil {
		t.Errorf("a key that is there: %v", err)
	}
	if err := c.Set(t.Context(), alice, "l", "v"); fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
		t.Errorf("one too many: %v", err)
	}
	if _, err := c.Get(t.Context(), alice, "l"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("it is kept all the same: %v", err)
	}
	if err := c.Set(t.Context(), who[1], "k", "v"); err != nil {
		t.Errorf("bob: %v", err)
	}
}
