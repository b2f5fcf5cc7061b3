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
	before := r.gets
	r.mu.Unlock()
	for range 1000 {
		r.Of(subject(alice))
	}
	r.mu.Lock()
	if r.gets != before {
		t.Errorf("settings were read %d times though nothing changed", r.gets-before)
	}
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
		for late := time.After(timetest.Limit); len(seen) < 2; {
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

// Callers that ask the same share a question, whose answer each of them gets.
func TestAskJoins(t *testing.T) {
	for _, c := range []prompts.Choice{prompts.Once, prompts.Session, prompts.Always, prompts.No, prompts.Never} {
		t.Run(string(c), func(t *testing.T) {
			r := newRig(t)
			to := tcp("api.example.org", 443)
			answers := make(chan bool, 20)
			for range cap(answers) {
				go func() { answers <- r.asker.Ask(t.Context(), subject(alice), to) }()
			}
			p := r.prompt()
			if p.Kind() != prompts.KindNetwork || p.Name != "alice" || p.Network != "api.example.org:443 (93.184.216.34)" {
				t.Errorf("%+v", p)
			}
			r.choose(p.ID, c)
			for range cap(answers) {
				if got := <-answers; got != c.Allows() {
					t.Errorf("%s: %v", c, got)
				}
			}
			// The answer counts for a while, so that whoever has given up may try again.
			if r.asker.Ask(t.Context(), subject(alice), to) != c.Allows() || len(r.broker.List()) != 0 || len(r.broker.Ended()) != 1 {
				t.Errorf("%d questions", len(r.broker.Ended()))
			}
			want := map[prompts.Choice][]string{prompts.Always: {"allow tcp api.example.org:443"}, prompts.Never: {"deny tcp api.example.org:443"}}[c]
			if got := r.rules(alice); !slices.Equal(got, want) {
				t.Errorf("the agent's rules are %q", got)
			}
			session := len(r.Of(subject(alice)).Rules) - len(want)
			if (session == 1) != (c == prompts.Session) {
				t.Errorf("%d rules of the session", session)
			}
			if others := len(r.Of(network.Subject{Agent: alice, Plugin: "p"}).Rules) - len(want); others != 0 {
				t.Errorf("a plugin has %d rules of the session", others)
			}
			r.EndSession(alice)
			if left := len(r.Of(subject(alice)).Rules) - len(want); left != 0 {
				t.Errorf("%d rules are left", left)
			}
		})
	}
}

// Another agent, plugin or destination is another question.
func TestAskApart(t *testing.T) {
	r := newRig(t)
	type asked struct {
		network.Subject
		policy.Target
	}
	address := policy.Target{Protocol: policy.UDP, Addr: netip.MustParseAddr("2001:db8::1"), Port: 53}
	all := []asked{
		{subject(alice), tcp("a.example.org", 443)}, {subject(bob), tcp("a.example.org", 443)}, {network.Subject{Agent: alice, Plugin: "rss"}, tcp("a.example.org", 443)},
		{subject(alice), tcp("b.example.org", 443)}, {subject(alice), tcp("a.example.org", 80)}, {subject(alice), address},
	}
	ctx, leave := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for _, a := range all {
		callers.Go(func() {
			if r.asker.Ask(ctx, a.Subject, a.Target) {
				t.Errorf("%+v: allowed", a)
			}
		})
	}
	timetest.Eventually(t, "all are asked", func() bool { return len(r.broker.List()) == len(all) })
	leave()
	callers.Wait()
	// The questions stay: their answers are for the next try.
	list := r.broker.List()
	if len(list) != len(all) {
		t.Fatalf("%d questions are left", len(list))
	}
	for _, p := range list {
		r.choose(p.ID, prompts.Always)
	}
	for _, a := range all {
		if !r.asker.Ask(t.Context(), a.Subject, a.Target) {
			t.Errorf("%+v: refused", a)
		}
	}
	got := r.rules(alice)
	slices.Sort(got)
	want := []string{"allow tcp a.example.org:443", "allow tcp a.example.org:80", "allow tcp b.example.org:443", "allow udp [2001:db8::1]:53"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// The answer for a name counts for the connections that follow.
func TestAskName(t *testing.T) {
	r := newRig(t)
	done := make(chan bool, 1)
	go func() { done <- r.asker.Ask(t.Context(), subject(alice), policy.Target{Name: "api.example.org"}) }()
	p := r.prompt()
	if p.Network != "api.example.org" {
		t.Errorf("%+v", p)
	}
	r.choose(p.ID, prompts.Once)
	if !<-done || !r.asker.Ask(t.Context(), subject(alice), tcp("api.example.org", 443)) {
		t.Error("refused")
	}
}

// Without an answer a flow is refused, and an answer does not count for long.
func TestAskTimes(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		r := newRig(t)
		to := tcp("api.example.org", 443)
		began := time.Now()
		if r.asker.Ask(t.Context(), subject(alice), to) || time.Since(began) != prompts.UsualWait {
			t.Errorf("after %v", time.Since(began))
		}
		if r.asker.Ask(t.Context(), subject(alice), to) || len(r.broker.Ended()) != 1 {
			t.Error("asked again at once")
		}
		time.Sleep(2 * time.Minute)
		done := make(chan bool, 1)
		go func() { done <- r.asker.Ask(t.Context(), subject(alice), to) }()
		timetest.Wait()
		r.choose(r.broker.List()[0].ID, prompts.Once)
		if !<-done {
			t.Error("refused")
		}
		time.Sleep(2 * time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r.asker.Ask(ctx, subject(alice), to) {
			t.Error("once counts for ever")
		}
		r.asker.Close()
		if r.asker.Ask(t.Context(), subject(alice), to) {
			t.Error("allowed after the end")
		}
	})
}

// An agent cannot ask without bounds, and a rule that cannot be stored leaves the question.
func TestAskBounds(t *testing.T) {
	r := newRig(t)
	ctx, leave := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for i := range 50 {
		callers.Go(func() { r.asker.Ask(ctx, subject(alice), tcp(fmt.Sprintf("h%d.example.org", i), 443)) })
	}
	timetest.Eventually(t, "it is asked", func() bool { return len(r.broker.List()) == 8 })
	leave()
	callers.Wait()
	if n := len(r.broker.List()); n != 8 {
		t.Errorf("%d questions", n)
	}
	p := r.prompt()
	r.mu.Lock()
	r.full = fault.Newf(fault.InvalidArgs, "set", "network.rules", "too many")
	r.mu.Unlock()
	if _, taken, err := r.broker.Choose(t.Context(), p.ID, prompts.Always, "me"); taken || fault.KindOf(err) != fault.InvalidArgs {
		t.Errorf("%v, %v", taken, err)
	}
	if now, err := r.broker.Get(p.ID); err != nil || now.State != prompts.Waiting {
		t.Errorf("%+v, %v", now, err)
	}
}

// The log keeps the newest flows, and a follower sees new ones.
func TestFlows(t *testing.T) {
	r := newRig(t)
	const all = egress.MaxFlows + 20
	for i := range all {
		r.flows.Record(flow(alice, tcp(fmt.Sprintf("h%d.example.org", i), 443), policy.Allow))
	}
	long := flow(alice, tcp(strings.Repeat("x", 10_000), 443), policy.Deny)
	long.Target.Path, long.Error = strings.Repeat("p", 10_000), strings.Repeat("e", 10_000)
	r.flows.Record(long)
	var seqs []int
	for f, err := range r.flows.Read(t.Context(), alice, false) {
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Target.Name) > 300 || len(f.Target.Path) > 300 || len(f.Error) > 300 {
			t.Errorf("a long flow is kept: %d bytes", len(f.Target.Name)+len(f.Target.Path)+len(f.Error))
		}
		seqs = append(seqs, int(f.Seq))
	}
	if len(seqs) != egress.MaxFlows || seqs[0] != all+2-egress.MaxFlows || !slices.IsSorted(seqs) {
		t.Errorf("%d flows from %d", len(seqs), seqs[0])
	}

	ctx, leave := context.WithTimeout(t.Context(), timetest.Limit)
	defer leave()
	r.flows.Record(flow(bob, tcp("first.example.org", 443), policy.Allow))
	var names []string
	for f, err := range r.flows.Read(ctx, bob, true) {
		if err != nil {
			t.Fatal(err)
		}
		if names = append(names, f.Target.Name); len(names) == 1 {
			go r.flows.Record(flow(bob, tcp("second.example.org", 443), policy.Allow))
			continue
		}
		break
	}
	if fmt.Sprint(names) != "[first.example.org second.example.org]" {
		t.Error(names)
	}

	// The log of a deleted agent goes, and its followers leave.
	gone := make(chan error, 1)
	go func() {
		for _, err := range r.flows.Read(ctx, bob, true) {
			if err != nil {
				gone <- err
				return
			}
		}
	}()
	r.delete(bob)
	timetest.Eventually(t, "the follower leaves", func() bool {
		r.flows.Forget(bob)
		return len(gone) > 0
	})
	if err := <-gone; fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	r.flows.Record(flow(bob, tcp("late.example.org", 443), policy.Deny))
	for range r.flows.Read(t.Context(), network.Subject{}.Agent, false) {
		t.Error("the guest has flows")
	}
}

// Refused flows are events that a loop or a scan cannot multiply, and the audit has an entry an hour.
func TestRefusals(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		r := newRig(t)
		end := time.Now().Add(time.Hour)
		for time.Now().Before(end.Add(-time.Minute)) { // a loop for an hour
			r.flows.Record(flow(alice, tcp("evil.example.org", 443), policy.Deny))
			time.Sleep(time.Second)
		}
		list := r.refusals()
		if len(list) != 6 || list[0].Fields["count"] != "1" || list[1].Fields["count"] != "60" || list[0].Fields["destination"] != "evil.example.org:443" || list[0].Fields["agent"] != "alice" {
			t.Errorf("%d events: %v", len(list), list)
		}
		for port := range uint16(10_000) { // a scan
			r.flows.Record(flow(bob, tcp("lan.example.org", port+1), policy.Deny))
		}
		r.flows.Record(flow(bob, tcp("ok.example.org", 443), policy.Allow))
		failed := flow(bob, tcp("down.example.org", 443), policy.Allow)
		failed.Error = "no route"
		r.flows.Record(failed)
		observed := flow(bob, tcp("seen.example.org", 443), policy.Allow)
		observed.Decision.Observed = true
		r.flows.Record(observed)
		if n := len(r.refusals()) - len(list); n != 30 {
			t.Errorf("a scan is %d events", n)
		}
		if n := len(r.audited()); n != 0 {
			t.Errorf("%d entries before the hour is over", n)
		}
		time.Sleep(end.Sub(time.Now()) + time.Second)
		timetest.Wait()
		got := map[config.AgentName]string{}
		for _, e := range r.audited() {
			got[e.Agent] += e.Detail
		}
		want := map[config.AgentName]string{
			"alice": "refused 3540, 35400 bytes sent and 354000 received, evil.example.org 3540",
			"bob": "allowed 1, failed 1, observed 1, refused 10000, 100030 bytes sent and 1000300 received, " +
				"lan.example.org 10000, down.example.org 1, ok.example.org 1, seen.example.org 1",
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q", got)
		}
		time.Sleep(3 * time.Hour)
		timetest.Wait()
		if n := len(r.audited()); n != 2 {
			t.Errorf("%d entries though nothing happened", n)
		}
		r.flows.Record(flow(alice, tcp("last.example.org", 443), policy.Allow))
		r.flows.Close()
		if n := len(r.audited()); n != 3 {
			t.Errorf("%d entries at the end", n)
		}
	})
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
	r.set(alice, "network.rules", "allow tcp api.example.org:443,allow files.example.org method=GET path=/pub/*,allow 10.1.0.0/16:5432")
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
		{bob, "", "inside.example.com", policy.Deny, "", "", "network.rules+="},
		{bob, "", "www.example.com", policy.Ask, "", "", "network.rules+="},
		{bob, "", "nowhere.example.org", policy.Ask, "", "", "network.rules+="},
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
	}

	// An answer for the session is a rule, and known as one.
	done := make(chan bool, 1)
	go func() { done <- r.asker.Ask(t.Context(), subject(bob), tcp("www.example.com", 443)) }()
	r.choose(r.prompt().ID, prompts.Session)
	<-done
	if e := r.Explain(t.Context(), subject(bob), tcp("www.example.com", 443), lookup); e.Decision.Action != policy.Allow || e.Source != egress.FromSession {
		t.Errorf("%+v", e)
	}
}

// Rules are suggested for what is still refused, and never against a rule that denies.
func TestLearn(t *testing.T) {
	r := newRig(t)
	r.set(alice, "network", "allow")
	r.set(alice, "network.observe", "true")
	r.set(alice, "network.rules", "deny bad.example.org")
	record := func(to policy.Target) {
		d := r.Of(subject(alice)).Decide(to, time.Now())
		if to.Port == 0 {
			d = r.Of(subject(alice)).Resolve(to.Name, time.Now())
		}
		r.flows.Record(network.Flow{Subject: subject(alice), Target: to, Decision: d})
	}
	learn := func() (list []string) {
		for _, s := range r.flows.Learn(alice, r.Of(subject(alice))) {
			list = append(list, fmt.Sprintf("%s %d", s.Rule, s.Count))
		}
		return list
	}
	for range 3 * egress.MaxFlows { // what comes later does not push it out
		record(tcp("api.example.org", 443))
	}
	record(policy.Target{Name: "api.example.org"})
	record(policy.Target{Name: "only.example.com"})
	record(tcp("bad.example.org", 443))
	if got := learn(); !slices.Equal(got, []string{"allow tcp api.example.org:443 1500", "allow only.example.com 1"}) {
		t.Errorf("%q", got)
	}
	r.set(alice, "network.rules+", "allow tcp api.example.org:443")
	if got := learn(); !slices.Equal(got, []string{"allow only.example.com 1"}) {
		t.Errorf("%q", got)
	}
	for i := range 10_000 {
		record(tcp("scanned.example.com", uint16(i+1)))
	}
	if n := len(learn()); n > 500 {
		t.Errorf("%d suggestions", n)
	}
	if got := r.flows.Learn(bob, r.Of(subject(bob))); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, text := range []string{"https://api.example.org/v1", "udp [::1]:53", "a:1:2", "http://[::1%25eth0]/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := egress.ParseTarget(text)
		if err == nil && (got.Port == 0 || (got.Name == "") == !got.Addr.IsValid()) {
			t.Errorf("%q: %+v", text, got)
		}
	})
}
