package policy

import (
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/config"
)

func TestSets(t *testing.T) {
	var names []string
	for _, s := range Sets() {
		names = append(names, s.Name)
		if s.Meaning == "" || len(s.Hosts) < 2 {
			t.Errorf("%+v", s)
		}
		for _, host := range s.Hosts {
			if r, err := config.ParseNetworkRule("allow " + host); err != nil || r.Host != host {
				t.Errorf("@%s has %q: %v", s.Name, host, err)
			}
			if !inSet(s.Name, strings.Replace(host, "*", "a.b", 1)) {
				t.Errorf("@%s does not have its %q", s.Name, host)
			}
		}
		if len(slices.Compact(slices.Sorted(slices.Values(s.Hosts)))) != len(s.Hosts) {
			t.Errorf("@%s has a host twice", s.Name)
		}
		if err := CheckSets(rules(t, "allow @"+s.Name, "deny a.example")); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"package-registries", "github", "huggingface", "anthropic", "openai"} {
		if !slices.Contains(names, name) {
			t.Errorf("there is no @%s", name)
		}
	}
	for _, name := range []string{"evilgithub.com", "com", "", "github.com.evil.example", "example.org"} {
		if inSet("github", name) || inSet("unknown", name) {
			t.Errorf("%q is in a set", name)
		}
	}
	if err := CheckSets(rules(t, "deny @githu")); err == nil || !strings.Contains(err.Error(), "no set @githu") {
		t.Error(err)
	}
}
