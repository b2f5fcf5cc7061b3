package bridge_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestSoak has 64 programs send valid and invalid requests, and leave in the middle, and checks that
// neither memory nor descriptors leak. OSAURUS_SOAK=10m finds slow leaks.
func TestSoak(t *testing.T) {
	const programs = 64
	long := 2 * time.Second
	if text := os.Getenv("OSAURUS_SOAK"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t)
	idle := descriptors(t)
	w.services.hold = func(ctx context.Context) error { // some calls take a moment
		if time.Now().UnixNano()%16 == 0 {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: programs, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return w.dial(alice.UID), nil
	}}}
	defer client.CloseIdleConnections()
	ask := func(ctx context.Context, r request) int {
		q, err := http.NewRequestWithContext(ctx, r.method, "http://localhost"+r.path, strings.NewReader(r.body))
		if err != nil {
			t.Error(err)
			return 0
		}
		q.Header.Set("Authorization", "Bearer "+r.token)
		for k, v := range r.headers {
			q.Header.Set(k, v)
		}
		a, err := client.Do(q)
		if err != nil {
			return 0
		}
		defer a.Body.Close()
		_, _ = io.Copy(io.Discard, a.Body)
		return a.StatusCode
	}

	var asked, odd atomic.Int64
	step := func(i int) {
		r := everyRoute[i%len(everyRoute)].of(w, alice)
		want, ctx := 200, t.Context()
		switch i % 20 {
		case 3:
			r.token, want = "nobody's", 401
		case 7:
			r.path, want = "/api/nothing", 404
		case 11:
			r.method, r.path, r.body, want = "POST", "/api/log", strings.Repeat("{", 100_000), 400
		case 13: // leave at some moment
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(i%300)*time.Microsecond)
			defer cancel()
		}
		got := ask(ctx, r)
		unset := got == 404 && r.method == "GET" // a setting without a value
		if got != want && !unset && ctx == t.Context() {
			odd.Add(1)
		}
		asked.Add(1)
	}
	// used returns the memory and descriptors in use when all requests have ended.
	used := func(after time.Duration) (memory uint64, open int) {
		var busy sync.WaitGroup
		for p, end := 0, time.Now().Add(after); p < programs; p++ {
			busy.Go(func() {
				for i := p; i == p || time.Now().Before(end); i++ { // at least once, however busy the computer is
					step(i)
				}
			})
		}
		busy.Wait()
		if long > time.Minute { // so that the windows of limits are as full as before
			time.Sleep(time.Minute)
			for _, c := range everyRoute {
				ask(t.Context(), c.of(w, alice))
			}
		}
		client.CloseIdleConnections()
		for quiet := time.Now().Add(30 * time.Second); descriptors(t) > idle && time.Now().Before(quiet); {
			time.Sleep(10 * time.Millisecond)
		}
		runtime.GC()
		runtime.GC() // for finalizers
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, descriptors(t)
	}
	memory, open := used(long / 4)
	memoryAfter, openAfter := used(long - long/4)
	t.Logf("%d requests in %s: %d KiB and then %d, %d descriptors and then %d", asked.Load(), long, memory>>10, memoryAfter>>10, open, openAfter)
	if odd.Load() > 0 {
		t.Errorf("%d requests got a wrong status", odd.Load())
	}
	if asked.Load() < programs {
		t.Errorf("only %d requests: this shows nothing", asked.Load())
	}
	more := uint64(1 << 20) // for pools of the standard library
	if long <= time.Minute {
		more += 64 * uint64(asked.Load()) // the windows of limits
	}
	if memoryAfter > memory+more {
		t.Errorf("memory grew from %d to %d bytes", memory, memoryAfter)
	}
	if openAfter > idle {
		t.Errorf("%d descriptors are open, %d before the first request", openAfter, idle)
	}
}
