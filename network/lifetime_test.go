package network

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/network/networktest"
	"osaurus-sandbox/network/policy"
)

// talk opens a connection to an echo server and sends a byte through it.
func (l *lab) talk(from, to netip.Addr, port uint16) net.Conn {
	l.t.Helper()
	c, err := l.dial(from, to, port)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := echoes(c); err != nil {
		l.t.Fatal(err)
	}
	return c
}

func echoes(c net.Conn) error {
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

func TestN16RecheckEndsFlows(t *testing.T) {
	l := newLab(t)
	other := netip.MustParseAddr("203.0.113.6")
	rule := func(addrs ...netip.Addr) func(policy.Target) policy.Decision {
		return func(t policy.Target) policy.Decision {
			for _, a := range addrs {
				if t.Addr == a {
					return allowed
				}
			}
			return denied
		}
	}
	l.set("alice", testRules{decide: rule(server, other)})
	bob := l.room("bob", rule(server))
	for _, a := range []netip.Addr{server, other} {
		l.internet.Serve(t, netip.AddrPortFrom(a, 7), networktest.Echo)
	}
	const many = 50
	var ended []net.Conn
	for range many {
		ended = append(ended, l.talk(l.alice, server, 7))
	}
	stays, bobs := l.talk(l.alice, other, 7), l.talk(bob, server, 7)
	l.set("alice", testRules{decide: rule(other)})
	l.Recheck("alice")
	for _, c := range ended {
		c.SetDeadline(time.Now().Add(patience)) // the one of its echo may be over
		if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
			t.Fatalf("got %v, want a reset", err)
		}
		c.Close()
		if f := l.flow(); f.Error != errRevoked.Error() || f.Decision.Action != policy.Deny {
			t.Fatalf("recorded %+v", f)
		}
	}
	for _, c := range []net.Conn{stays, bobs} {
		if err := echoes(c); err != nil {
			t.Errorf("a flow that is allowed ended: %v", err)
		}
		c.Close()
	}
}

func TestFlowsEndWithTheirRule(t *testing.T) {
	l := newLab(t)
	l.internet.Serve(t, netip.AddrPortFrom(server, 7), networktest.Echo)
	until := time.Now().Add(time.Hour)
	byRule := allowed
	byRule.Rule = &config.NetworkRule{Prefix: netip.PrefixFrom(server, 32), Until: until}
	l.set("alice", testRules{decide: func(policy.Target) policy.Decision { return byRule }})
	c := l.talk(l.alice, server, 7)
	defer c.Close()
	l.expire(until.Add(-time.Minute))
	if err := echoes(c); err != nil {
		t.Fatalf("the flow ended before its rule: %v", err)
	}
	l.set("alice", testRules{decide: func(policy.Target) policy.Decision { return denied }})
	l.expire(until)
	if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("got %v, want a reset", err)
	}
}

// A policy may change after the first packet is decided about, and before Recheck can see the flow.
func TestFlowsThatBeginWhileAPolicyChanges(t *testing.T) {
	l := newLab(t)
	l.internet.Serve(t, netip.AddrPortFrom(server, 7), networktest.Echo)
	l.internet.ServeUDP(t, netip.AddrPortFrom(server, 7), func(b []byte) []byte { return b })
	// Each flow is decided about twice. A client may send its SYN again before it sees the answer, so they are
	// counted apart.
	var connections, datagrams atomic.Int64
	l.set("alice", testRules{decide: func(t policy.Target) policy.Decision {
		count := &connections
		if t.Protocol == policy.UDP {
			count = &datagrams
		}
		if count.Add(1)%2 == 1 {
			return allowed
		}
		return denied
	}})
	if _, err := l.dial(l.alice, server, 7); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
	c, err := l.guest.DialUDP(l.alice, netip.AddrPortFrom(server, 7))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if f := l.flow(); f.Decision.Action != policy.Deny {
			t.Errorf("recorded %+v", f)
		}
	}
	if dials := l.internet.Dials(); len(dials) != 0 {
		t.Errorf("dialed %v", dials)
	}
}

func TestLeaveEndsFlowsAndDropsFrames(t *testing.T) {
	l := newLab(t)
	l.internet.Serve(t, netip.AddrPortFrom(server, 7), networktest.Echo)
	bob := l.room("bob", func(policy.Target) policy.Decision { return allowed })
	mine, bobs := l.talk(l.alice, server, 7), l.talk(bob, server, 7)
	defer mine.Close()
	defer bobs.Close()
	l.Leave("alice")
	if f := l.flow(); f.Error != errLeft.Error() {
		t.Errorf("recorded %+v", f)
	}
	if err := echoes(bobs); err != nil {
		t.Errorf("bob's flow: %v", err)
	}
	before := l.Stats().Link.Spoofed
	c, err := l.guest.DialUDP(l.alice, netip.AddrPortFrom(server, 5000))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("x"))
	waitFor(t, "the frame to be dropped", func() bool { return l.Stats().Link.Spoofed > before })
	if _, err := l.Join(Subject{Agent: "alice"}); err != nil {
		t.Error(err)
	}
}

func TestIdleFlowsEnd(t *testing.T) {
	l := newLab(t)
	l.internet.Serve(t, netip.AddrPortFrom(server, 7), networktest.Echo)
	c := l.talk(l.alice, server, 7)
	defer c.Close()
	l.expire(time.Now().Add(idleTimeout - time.Minute))
	if err := echoes(c); err != nil {
		t.Fatalf("ended too early: %v", err)
	}
	l.expire(time.Now().Add(idleTimeout + time.Minute))
	if f := l.flow(); f.Error != errIdle.Error() {
		t.Errorf("recorded %+v", f)
	}
}

func TestIdleRequestsEnd(t *testing.T) {
	l := newLab(t)
	asked := make(chan struct{})
	l.internet.Serve(t, netip.AddrPortFrom(server, 80), func(c net.Conn) { // it never answers
		_, _ = c.Read(make([]byte, 1))
		close(asked)
		_, _ = io.Copy(io.Discard, c)
	})
	l.set("alice", testRules{opened: true, decide: func(policy.Target) policy.Decision { return allowed }})
	c, err := l.dial(l.alice, server, 80)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", server)
	<-asked
	l.expire(time.Now().Add(openedTimeout - time.Minute))
	if n := l.Stats().Flows; n != 1 {
		t.Errorf("%d flows run", n)
	}
	l.expire(time.Now().Add(openedTimeout + time.Minute))
	if f := l.flow(); f.Error != errIdle.Error() {
		t.Errorf("recorded %+v", f)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	l := newLab(t)
	l.internet.Serve(t, netip.AddrPortFrom(server, 7), networktest.Echo)
	c := l.talk(l.alice, server, 7)
	defer c.Close()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if f := l.flow(); f.Error != errClosed.Error() {
		t.Errorf("recorded %+v", f)
	}
	if n := l.Stats().Flows; n > 0 {
		t.Errorf("%d flows remain", n)
	}
}

// The end of a gateway is the end of its guest's network alone.
func TestN18GatewayEnds(t *testing.T) {
	l, neighbour := newLab(t), newLab(t)
	l.internet.Serve(t, netip.MustParseAddrPort("9.9.9.9:7"), networktest.Echo)
	for _, each := range []*lab{l, neighbour} {
		each.internet.Serve(t, netip.AddrPortFrom(server, 7), networktest.Echo)
	}
	c, others := l.talk(l.alice, server, 7), neighbour.talk(neighbour.alice, server, 7)
	defer c.Close()
	defer others.Close()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := echoes(c); err == nil {
		t.Error("a connection outlives the gateway")
	}
	dials := len(l.internet.Dials())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := l.guest.Dial(ctx, l.alice, netip.AddrPortFrom(server, 7)); err == nil || len(l.internet.Dials()) > dials {
		t.Errorf("the guest connects without a gateway: %v", err)
	}
	l.Recheck("alice")
	l.Leave("alice")
	if err := l.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if err := echoes(others); err != nil {
		t.Errorf("the neighbour's connection: %v", err)
	}

	again, wire, err := Open(Options{Dialer: l.internet, Policy: func(Subject) policy.Policy { return policy.Policy{Mode: config.NetworkOpen} }})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	addr, err := again.Join(Subject{Agent: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	l.Gateway, l.guest = again, networktest.NewGuest(t, wire)
	l.guest.Add(t, addr)
	l.talk(addr, netip.MustParseAddr("9.9.9.9"), 7).Close()
}

func TestResetsPassThrough(t *testing.T) {
	l := newLab(t)
	l.internet.Serve(t, netip.AddrPortFrom(server, 7), func(c net.Conn) {
		io.ReadFull(c, make([]byte, 1))
		c.(*net.TCPConn).SetLinger(0)
	})
	c, err := l.dial(l.alice, server, 7)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	c.Write([]byte("x"))
	if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("got %v, want a reset", err)
	}
	if f := l.flow(); !strings.Contains(f.Error, "reset") {
		t.Errorf("recorded %+v", f)
	}
}

func TestPluginsHaveTheirOwnPolicy(t *testing.T) {
	l := newLab(t, func(g *Gateway) {
		agent := g.policy
		g.policy = func(s Subject) rules {
			if s.Plugin != "" {
				return testRules{decide: func(policy.Target) policy.Decision { return denied }}
			}
			return agent(s)
		}
	})
	l.internet.Serve(t, netip.AddrPortFrom(server, 7), networktest.Echo)
	plugin, err := l.Join(Subject{Agent: "alice", Plugin: "p"})
	if err != nil {
		t.Fatal(err)
	}
	l.guest.Add(t, plugin)
	l.talk(l.alice, server, 7).Close()
	l.flow()
	if _, err := l.dial(plugin, server, 7); err == nil {
		t.Error("the plugin connected")
	}
	if f := l.flow(); f.Subject != (Subject{Agent: config.AgentID("alice"), Plugin: "p"}) {
		t.Errorf("recorded %+v", f)
	}
}

func TestN04Pings(t *testing.T) {
	l := newLab(t)
	l.internet.ServeEcho(t, server)
	silent := netip.MustParseAddr("203.0.113.9")
	l.set("alice", testRules{decide: func(t policy.Target) policy.Decision {
		if t.Protocol == policy.ICMP && (t.Addr == server || t.Addr == silent) {
			return allowed
		}
		return denied
	}})
	if reply, err := l.guest.Ping(l.alice, server, "hello"); err != nil || reply != "hello" {
		t.Errorf("got %q, %v", reply, err)
	}
	if f := l.flow(); f.Target.Protocol != policy.ICMP || f.Sent != 13 || f.Received != 13 {
		t.Errorf("recorded %+v", f)
	}
	if reply, err := l.guest.Ping(l.alice, subnet.Gateway(), "gateway"); err != nil || reply != "gateway" {
		t.Errorf("the gateway: %q, %v", reply, err)
	}
	unreachable := l.guest.Stack.Stats().ICMP.V4.PacketsReceived.DstUnreachable
	for i, to := range []netip.Addr{private, silent} {
		go l.guest.Ping(l.alice, to, "nobody")
		waitFor(t, "an ICMP error", func() bool { return unreachable.Value() == uint64(i+1) })
		l.flow()
	}
}
