package network

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/network/networktest"
	"osaurus-sandbox/network/policy"
)

func TestBytesOfADay(t *testing.T) {
	var limit atomic.Int64
	l := newLab(t, func(g *Gateway) {
		g.options.Limits = func(a config.AgentID) Limits {
			if a == "alice" {
				return Limits{BytesPerDay: limit.Load()}
			}
			return Limits{}
		}
	})
	l.internet.Serve(t, netip.AddrPortFrom(server, 7), networktest.Echo)
	bob := l.room("bob", func(policy.Target) policy.Decision { return allowed })
	plugin, err := l.Join(Subject{Agent: "alice", Plugin: "news"})
	if err != nil {
		t.Fatal(err)
	}
	l.guest.Add(t, plugin)
	limit.Store(1000)
	open, bobs := l.talk(l.alice, server, 7), l.talk(bob, server, 7)
	c := l.talk(plugin, server, 7)
	_, _ = c.Write(make([]byte, 2000)) // the gateway may reset the connection first
	if _, err := io.ReadAll(c); err == nil {
		t.Error("a connection goes on although the day's bytes are used up")
	}
	if f := l.flow(); f.Error != errDayOver.Error() || f.Subject.Plugin != "news" {
		t.Errorf("recorded %+v", f)
	}
	for _, from := range []netip.Addr{l.alice, plugin} {
		if _, err := l.dial(from, server, 7); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("a new connection: %v", err)
		}
		if f := l.flow(); f.Decision.Action != policy.Deny || !strings.Contains(f.Decision.Reason, "limits.networkMBPerDay") {
			t.Errorf("recorded %+v", f)
		}
	}
	if echoes(open) == nil {
		t.Error("an open connection goes on")
	}
	if err := echoes(bobs); err != nil {
		t.Errorf("another agent's connection: %v", err)
	}
	limit.Store(1 << 20)
	l.Recheck("alice")
	l.talk(l.alice, server, 7).Close()
}

func TestTrafficIsSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		limits := newTraffic()
		if limits.set(Limits{BytesPerSecond: 1 << 20, BytesPerDay: 4 << 20}, now) {
			t.Error("the day is over before it began")
		}
		for range 3 {
			if err := limits.spend(t.Context(), 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(now); took < 2900*time.Millisecond || took > 3100*time.Millisecond {
			t.Errorf("3 MiB at 1 MiB/s took %v", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := limits.spend(ctx, 1000); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %v", err)
		}
		if err := limits.spend(t.Context(), 1<<20); !errors.Is(err, errDayOver) {
			t.Errorf("more than a day's bytes: %v", err)
		}
		time.Sleep(24 * time.Hour)
		if err := limits.spend(t.Context(), 1<<20); err != nil {
			t.Errorf("a day later: %v", err)
		}
	})
}
