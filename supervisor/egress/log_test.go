package egress_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/supervisor/egress"
)

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
		if len(list) != 1 || list[0].Fields["destination"] != "evil.example.org:443" || list[0].Fields["agent"] != "alice" {
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
		time.Sleep(time.Until(end) + time.Second)
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

// Rules are suggested for what is still refused, and never against a rule that denies.
func TestVerdictOfLookup(t *testing.T) {
	r := newRig(t)
	f := flow(alice, policy.Target{Protocol: policy.UDP, Name: "new.example.org", Port: 53}, policy.Ask)
	r.flows.Record(f)
	for kept, err := range r.flows.Read(t.Context(), alice, false) {
		if err != nil || egress.VerdictOf(kept.Flow) != egress.Asked || egress.VerdictOf(f) != egress.Asked {
			t.Errorf("%+v, %v", kept, err)
		}
	}
	if got := egress.VerdictOf(flow(alice, tcp("new.example.org", 443), policy.Ask)); got != egress.Refused {
		t.Error(got)
	}
}

func TestLearn(t *testing.T) {
	r := newRig(t)
	r.set(alice, "network", "allow")
	r.set(alice, "network.observe", "true")
	r.set(alice, "network.rules", "deny bad.example.org")
	record := func(to policy.Target) {
		d := r.Of(subject(alice)).Decide(to, time.Now())
		if to.Port == 0 {
			d = r.Of(subject(alice)).Resolve(to.Name, time.Now())
			to.Protocol, to.Port = policy.UDP, 53 // as the gateway records queries
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
	record(policy.Target{Protocol: policy.TCP, Name: "held.example.com", Port: 22}) // was told no address
	record(tcp("bad.example.org", 443))
	if got := learn(); !slices.Equal(got, []string{"allow tcp api.example.org:443 1500", "allow only.example.com 1", "allow tcp held.example.com:22 1"}) {
		t.Errorf("%q", got)
	}
	r.set(alice, "network.rules+", "allow tcp api.example.org:443")
	if got := learn(); !slices.Equal(got, []string{"allow only.example.com 1", "allow tcp held.example.com:22 1"}) {
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
