package egress_test

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/supervisor/egress"
	"osaurus-sandbox/supervisor/prompts"
)

func TestPolicies(t *testing.T) {
	r := newRig(t)
	texts := func(p policy.Policy) (list []string) {
		for _, rule := range p.Rules {
			list = append(list, rule.String())
		}
		return list
	}
	if p := r.Of(subject(alice)); p.Mode != config.NetworkOpen || p.Observe || len(p.Rules) != 0 || p.Hosts != nil {
		t.Errorf("by default: %+v", p)
	}
	r.set(alice, "network", "allow")
	r.set(alice, "network.observe", "true")
	r.set(alice, "network.rules", "allow api.example.org:443")
	rule, err := config.ParseNetworkRule("deny *.example.net")
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.home.NetworkRules = []config.NetworkRule{rule}
	r.mu.Unlock()
	p := r.Of(subject(alice))
	if p.Mode != config.NetworkAllow || !p.Observe || !slices.Equal(texts(p), []string{"deny *.example.net", "allow api.example.org:443"}) {
		t.Errorf("%+v", p)
	}
	if p := r.Of(subject(bob)); p.Mode != config.NetworkOpen || len(p.Rules) != 1 {
		t.Errorf("another agent: %+v", p)
	}
	if p := r.Of(network.Subject{}); p.Mode != config.NetworkOpen || len(p.Rules) != 1 {
		t.Errorf("the guest's root: %+v", p)
	}

	// Rules for all agents count at once, too.
	for _, rules := range [][]config.NetworkRule{{rule, rule}, {rule}} {
		r.mu.Lock()
		r.home.NetworkRules = rules
		r.mu.Unlock()
		if p := r.Of(subject(alice)); len(p.Rules) != len(rules)+1 || p.Shared != len(rules) {
			t.Errorf("%+v", p)
		}
	}

	// A plugin has the agent's policy, and its own hosts at once.
	plugin := network.Subject{Agent: alice, Plugin: "rss"}
	for _, hosts := range [][]string{{"feeds.example.org"}, {}, nil} {
		r.mu.Lock()
		r.hosts["rss"] = hosts
		r.mu.Unlock()
		if p := r.Of(plugin); p.Mode != config.NetworkAllow || !reflect.DeepEqual(p.Hosts, hosts) {
			t.Errorf("a plugin: %+v, want %q", p, hosts)
		}
	}

	r.mu.Lock()
	r.home.Network = config.NetworkNone
	r.mu.Unlock()
	if p := r.Of(subject(alice)); p.Mode != config.NetworkClosed {
		t.Errorf("in a home without a network: %+v", p)
	}
	r.delete(alice)
	if p := r.Of(subject(alice)); !reflect.DeepEqual(p, policy.Policy{}) {
		t.Errorf("deleted: %+v", p)
	}
}

// A change is followed by a check of each agent's flows.
func TestWatch(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	checked := make(chan config.AgentID, 100)
	var watching sync.WaitGroup
	watching.Go(func() { r.Watch(ctx, func(id config.AgentID) { checked <- id }) })
	both := func(what string) {
		t.Helper()
		seen := map[config.AgentID]bool{}
		for late := time.After(timetest.Limit); len(seen) < 3; {
			select {
			case id := <-checked:
				seen[id] = true
			case <-late:
				t.Fatalf("%s: only %v", what, seen)
			}
		}
	}
	both("at first")
	r.set(alice, "network", "none")
	both("after a change")
	r.Refresh()
	both("after a change of the home")
	cancel()
	watching.Wait()
}

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]string{
		"https://api.example.org/v1?x=1": "api.example.org:443", "http://API.Example.org.:8080": "api.example.org:8080", "api.example.org": "api.example.org:443",
		"api.example.org:22": "api.example.org:22", "ssh://git@github.com/x": "github.com:22", "udp 192.0.2.1:53": "udp 192.0.2.1:53", "tcp example.org:25": "example.org:25",
		"2001:db8::1": "[2001:db8::1]:443", "[2001:db8::1]:80": "[2001:db8::1]:80", "::ffff:192.0.2.1": "192.0.2.1:443", "localhost:11434": "localhost:11434",
		"": "", "icmp 192.0.2.1": "", "https://": "", "example.org:0": "", "example.org:99999": "", "example.org/path": "", "a b c": "", "127.1": "", "gopher://example.org": "",
		"user@example.org": "", "http://%zz": "",
	} {
		got, err := egress.ParseTarget(text)
		got.Method, got.Path = "", ""
		if want == "" && (fault.KindOf(err) != fault.InvalidArgs || fault.AdviceOf(err) == "") || want != "" && (err != nil || egress.Destination(got) != want) {
			t.Errorf("%q: %q, %v", text, egress.Destination(got), err)
		}
	}
	if got, err := egress.ParseTarget("https://api.example.org/v1/x?y"); err != nil || got.Path != "/v1/x" || got.Method != "GET" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestExplain(t *testing.T) {
	r := newRig(t)
	deny, err := config.ParseNetworkRule("deny *.example.net")
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.home.NetworkRules = []config.NetworkRule{deny}
	r.hosts["rss"] = []string{"feeds.example.org"}
	r.mu.Unlock()
	r.set(alice, "network", "allow")
	r.set(alice, "network.rules", "allow tcp api.example.org:443,allow files.example.org method=GET path=/pub/*,allow 10.1.0.0/16:5432,allow nowhere.example.org:443")
	r.set(bob, "network", "ask")
	lookup := func(_ context.Context, name string) ([]netip.Addr, error) {
		switch name {
		case "nowhere.example.org":
			return nil, fmt.Errorf("no such host")
		case "inside.example.com":
			return []netip.Addr{netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("10.9.9.9")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
	}
	for _, tc := range []struct {
		agent  config.AgentID
		plugin config.PluginID
		to     string
		want   policy.Action
		rule   string
		source egress.Source
		advice string // a part of it
	}{
		{alice, "", "https://api.example.org/v1", policy.Allow, "allow tcp api.example.org:443", egress.FromAgent, ""},
		{alice, "", "http://api.example.org/v1", policy.Deny, "", "", "agent set alice 'network.rules+=allow tcp api.example.org:80'"},
		{alice, "", "other.example.org", policy.Deny, "", "", "agent set alice 'network.rules+=allow other.example.org'"},
		{alice, "", "www.example.net", policy.Deny, "deny *.example.net", egress.FromHome, "config set"},
		{alice, "", "https://files.example.org/pub/x", policy.Allow, "allow files.example.org method=GET path=/pub/*", egress.FromAgent, ""},
		{alice, "", "https://files.example.org/private", policy.Deny, "", "", "network.rules+="},
		{alice, "", "10.1.2.3:5432", policy.Allow, "allow 10.1.0.0/16:5432", egress.FromAgent, ""},
		{alice, "", "10.1.2.3:22", policy.Deny, "", "", "network.rules+="},
		{alice, "rss", "api.example.org", policy.Deny, "", "", ""},
		{bob, "", "inside.example.com", policy.Ask, "", "", "network.rules+="}, // rooms are told the other address
		{bob, "", "198.18.0.9", policy.Deny, "", "", ""},
		{bob, "", "198.18.200.1:22", policy.Deny, "", "", ""},
		{bob, "", "8.8.8.8:853", policy.Deny, "", "", ""},
		{bob, "", "udp 8.8.8.8:53", policy.Allow, "", "", ""},
		{bob, "", "www.example.com", policy.Ask, "", "", "network.rules+="},
		{bob, "", "nowhere.example.org", policy.Ask, "", "", "network.rules+=allow tcp nowhere.example.org:443"},
		{alice, "", "nowhere.example.org:80", policy.Deny, "", "", "network.rules+=allow tcp nowhere.example.org:80"},
		{alice, "", "nowhere.example.org", policy.Allow, "allow nowhere.example.org:443", egress.FromAgent, ""},
	} {
		target, err := egress.ParseTarget(tc.to)
		if err != nil {
			t.Fatal(err)
		}
		e := r.Explain(t.Context(), network.Subject{Agent: tc.agent, Plugin: tc.plugin}, target, lookup)
		rule := ""
		if e.Decision.Rule != nil {
			rule = e.Decision.Rule.String()
		}
		if e.Decision.Action != tc.want || rule != tc.rule || e.Source != tc.source || !strings.Contains(e.Decision.Advice, tc.advice) || e.Decision.Reason == "" {
			t.Errorf("%s: %s by %q from %q: %s; %s", tc.to, e.Decision.Action, rule, e.Source, e.Decision.Reason, e.Decision.Advice)
		}
		if strings.Contains(e.Decision.Reason, "finds no address") != (target.Name == "nowhere.example.org") {
			t.Errorf("%s: %s", tc.to, e.Decision.Reason)
		}
	}

	// An answer for the session is a rule, and known as one.
	done := make(chan bool, 1)
	go func() { done <- r.asker.Ask(t.Context(), subject(bob), tcp("www.example.com", 443)) }()
	r.choose(r.prompt().ID, prompts.Session)
	<-done
	if e := r.Explain(t.Context(), subject(bob), tcp("www.example.com", 443), lookup); e.Decision.Action != policy.Allow || e.Source != egress.FromSession {
		t.Errorf("%+v", e)
	}
	for id, want := range map[config.AgentID]int{alice: 5, bob: 2} {
		if agent, _ := r.Get(string(id)); len(r.Rules(agent)) != want {
			t.Errorf("%s has the rules %v", agent.Name, r.Rules(agent))
		}
	}
}

func BenchmarkPolicies(b *testing.B) {
	r := newRig(b)
	r.Of(subject(alice))
	b.ReportAllocs()
	for b.Loop() {
		r.Of(subject(alice))
	}
}
