package bridge_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// TestLimits checks that each agent's requests of any minute are bounded, and that refused ones do
// not count.
func TestLimits(t *testing.T) {
	limits := config.BridgeLimits{config.SecretCalls: 2, config.ConfigCalls: 3, config.InferenceCalls: 2, config.HTTPCalls: 2, config.DispatchCalls: 1, config.MemoryCalls: 2, config.LogCalls: 4}
	for _, c := range []struct {
		limit   int
		routes  []oneRoute // which share it
		without oneRoute   // what is refused before it counts
	}{
		{2, everyRoute[0:1], oneRoute{"GET", "/api/secrets/a-b", ""}},
		{3, everyRoute[1:3], oneRoute{"POST", "/api/config/key", `{}`}},
		{2, everyRoute[3:4], oneRoute{"POST", "/api/inference/chat", `{"messages":[]}`}},
		{1, everyRoute[4:5], oneRoute{"POST", "/api/agent/dispatch", `{"task":"a","agent_id":"bob"}`}},
		{2, everyRoute[5:7], oneRoute{"POST", "/api/agent/memory/store", `{"content":null}`}},
		{2, everyRoute[7:9], oneRoute{"POST", "/api/events/emit", `{"type":"a b"}`}},
		{4, everyRoute[9:10], oneRoute{"POST", "/api/log", `{"level":"loud","message":""}`}},
	} {
		t.Run(c.routes[0].path, func(t *testing.T) {
			timetest.Synthetic(t, func(t *testing.T) {
				w := piped(t, func(o *bridge.Options) { o.Limits = always(limits) })
				turn := 0
				ask := func(h bridge.Holder, want int) response {
					r := c.routes[turn%len(c.routes)]
					turn++
					got := w.ask(r.of(w, h))
					if got.status != want && got.status != http.StatusNotFound {
						t.Fatalf("%s: %v, want %d", r.path, got, want)
					}
					return got
				}
				for range 5 {
					if got := w.ask(c.without.of(w, alice)); got.status < 400 {
						t.Fatalf("%s: %v", c.without.path, got)
					}
				}
				began := time.Now()
				for range c.limit {
					ask(alice, 200)
					time.Sleep(10 * time.Second)
				}
				left := time.Until(began.Add(time.Minute))
				got := ask(alice, 429)
				if after, err := time.ParseDuration(got.header.Get("Retry-After") + "s"); err != nil || after < left || after > left+time.Second {
					t.Errorf("Retry-After: %s, and it is %s", got.header.Get("Retry-After"), left)
				}
				if !strings.Contains(got.body, "a minute is reached") || !strings.Contains(got.body, `"rejected"`) {
					t.Errorf("it says %s", got.body)
				}
				ask(bob, 200) // has limits of his own
				time.Sleep(left - time.Millisecond)
				ask(alice, 429)
				time.Sleep(2 * time.Millisecond)
				ask(alice, 200) // the first of them is a minute old
				ask(alice, 429)
			})
		})
	}
}

// TestMisdirectedTasksDoNotFillTheAudit checks that refused tasks for other agents are recorded
// only as often as tasks are allowed, and do not count as tasks.
func TestMisdirectedTasksDoNotFillTheAudit(t *testing.T) {
	w := newWorld(t, func(o *bridge.Options) { o.Limits = always(config.BridgeLimits{config.DispatchCalls: 2}) })
	for range 20 {
		if got := w.ask(w.as(alice, "POST", "/api/agent/dispatch", `{"task":"a","agent_id":"bob"}`)); got.status != http.StatusForbidden {
			t.Fatal(got)
		}
	}
	if n := strings.Count(w.audit.all(), "task.dispatch"); n != 2 {
		t.Errorf("%d entries, want 2", n)
	}
	if got := w.ask(everyRoute[4].of(w, alice)); got.status != http.StatusOK {
		t.Error(got)
	}
}

// TestFailuresCount checks that failed calls count, such as guessing names of secrets.
func TestFailuresCount(t *testing.T) {
	w := newWorld(t, func(o *bridge.Options) { o.Limits = always(config.BridgeLimits{config.SecretCalls: 3}) })
	w.services.fails(fault.New(fault.NotFound, "read", "", nil))
	for i, want := range []int{404, 404, 404, 429} {
		if got := w.ask(w.as(alice, "GET", "/api/secrets/KEY", "")); got.status != want {
			t.Errorf("%d: %v", i, got)
		}
	}
}

// TestLimitsThatChange checks that a changed limit applies at once, also to earlier requests.
func TestLimitsThatChange(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		limit := 3
		w := piped(t, func(o *bridge.Options) {
			o.Limits = func() config.BridgeLimits { return config.BridgeLimits{config.InferenceCalls: limit} }
		})
		for i, c := range []struct {
			limit, status int
			after         string
		}{
			{3, 200, ""}, {3, 200, ""}, {2, 429, "40"}, {3, 200, ""}, {3, 429, "20"}, {1, 429, "40"}, {0, 429, "60"}, {4, 200, ""}, {1, 429, "50"},
		} {
			limit = c.limit
			if got := w.ask(everyRoute[3].of(w, alice)); got.status != c.status || got.header.Get("Retry-After") != c.after {
				t.Errorf("%d: at most %d: %v after %s, want %d after %s", i, c.limit, got, got.header.Get("Retry-After"), c.status, c.after)
			}
			time.Sleep(10 * time.Second)
		}
	})
}
