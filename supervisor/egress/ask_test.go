package egress_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/supervisor/prompts"
)

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
			if p.Kind != prompts.KindNetwork || p.Name != "alice" || p.What != "api.example.org:443 (93.184.216.34)" {
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
			want := map[prompts.Choice][]string{prompts.Always: {"allow tcp api.example.org:443 public"}, prompts.Never: {"deny tcp api.example.org:443"}}[c]
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
	want := []string{"allow tcp a.example.org:443 public", "allow tcp a.example.org:80 public", "allow tcp b.example.org:443 public", "allow udp [2001:db8::1]:53"}
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
	if p.What != "api.example.org" {
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
	// What found no room was not answered: it is asked once there is some.
	if _, _, err := r.broker.Cancel(t.Context(), p.ID, "me"); err != nil {
		t.Fatal(err)
	}
	missing := -1
	for i := range 50 {
		asked := func(q prompts.Prompt) bool {
			return strings.HasPrefix(q.What, fmt.Sprintf("h%d.example.org:443 ", i))
		}
		if !slices.ContainsFunc(append(r.broker.List(), p), asked) {
			missing = i
		}
	}
	ctx, leave = context.WithCancel(t.Context())
	callers.Go(func() { r.asker.Ask(ctx, subject(alice), tcp(fmt.Sprintf("h%d.example.org", missing), 443)) })
	timetest.Eventually(t, "it is asked", func() bool { return len(r.broker.List()) == 8 })
	leave()
	callers.Wait()
}
