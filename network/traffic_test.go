package network

import (
	"io"
	"net"
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
	set := func(n int64) {
		limit.Store(n)
		l.Recheck("alice")
	}
	for _, port := range []uint16{7, 80} {
		l.internet.Serve(t, netip.AddrPortFrom(server, port), networktest.Echo)
	}
	bob := l.room("bob", func(policy.Target) policy.Decision { return allowed })
	plugin, err := l.Join(Subject{Agent: "alice", Plugin: "news"})
	if err != nil {
		t.Fatal(err)
	}
	l.guest.Add(t, plugin)
	set(1000)
	idle, bobs, c := l.talk(l.alice, server, 7), l.talk(bob, server, 7), l.talk(plugin, server, 7)
	for _, c := range []net.Conn{idle, bobs, c} {
		defer c.Close()
	}
	_, _ = c.Write(make([]byte, 2000)) // the gateway may reset the connection first
	if _, err := io.ReadAll(c); err == nil {
		t.Error("a connection goes on although the day's bytes are used up")
	}
	for range 2 { // also one that sends nothing ends
		if f := l.flow(); f.Subject.Agent != "alice" || f.Error != errRevoked.Error() || !strings.Contains(f.Decision.Reason, "limits.networkMBPerDay") {
			t.Errorf("recorded %+v", f)
		}
	}
	for _, from := range []netip.Addr{l.alice, plugin} {
		if _, err := l.dial(from, server, 7); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("a new connection: %v", err)
		}
		if f := l.flow(); f.Decision.Action != policy.Deny || !strings.Contains(f.Decision.Reason, "limits.networkMBPerDay") {
			t.Errorf("recorded %+v", f)
		}
	}
	web, err := l.dial(l.alice, server, 80)
	if err != nil {
		t.Fatal(err)
	}
	defer web.Close()
	if page, err := get(web, "example.org"); err != nil || !strings.Contains(page, "limits.networkMBPerDay") {
		t.Errorf("the page says %q, %v", page, err)
	}
	if err := echoes(bobs); err != nil {
		t.Errorf("another agent's connection: %v", err)
	}
	set(1 << 20)
	l.talk(l.alice, server, 7).Close()
}

func TestTrafficIsSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, b := time.Now(), newBudget()
		b.set(Limits{BytesPerSecond: 1 << 20, BytesPerDay: 4 << 20})
		for range 3 {
			if b.spend(t.Context(), 1<<20) {
				t.Fatal("the day is over too early")
			}
		}
		if took := time.Since(now); took < 2900*time.Millisecond || took > 3100*time.Millisecond {
			t.Errorf("3 MiB at 1 MiB/s took %v", took)
		}
		if !b.spend(t.Context(), 1<<20) {
			t.Error("the day goes on after its last byte")
		}
		time.Sleep(24 * time.Hour)
		if b.spend(t.Context(), 1<<20) {
			t.Error("the next day does not begin")
		}
	})
}
