package guesttest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/subnet"
)

// networkCases check what a room reaches.
func networkCases() []roomCase {
	return []roomCase{{"Outbound", outbound}, {"RoomToRoom", roomToRoom}, {"None", noNetwork}, {"Spoofing", spoofing}, {"Ports", ports}}
}

// moreNetworkCases do not depend on the distribution.
func moreNetworkCases() []roomCase {
	return []roomCase{{"RoomToGuest", roomToGuest}, {"Address", newAddress}, {"IPv6", onlyLoopbackHasIPv6}}
}

// onlyLoopbackHasIPv6 checks that the cable never gets an IPv6 address.
func onlyLoopbackHasIPv6(ctx context.Context, t *testing.T, alice, _ *agent) {
	const times = 5 // of a race
	for range times {
		if err := alice.suite.Client.RemoveRoom(ctx, alice.User, false); err != nil {
			t.Fatal(err)
		}
		alice.ensure(ctx, t)
		out, exit := alice.run(ctx, t, "cat /proc/sys/net/ipv6/conf/eth0/disable_ipv6; cat /proc/net/if_inet6")
		lines := strings.Split(out, "\n")
		if exit.Status() != 0 || len(lines) != 2 || lines[0] != "1" || !strings.HasSuffix(lines[1], " lo") {
			t.Errorf("%+v %s", exit, out)
		}
	}
}

// connects waits until an agent reaches a server. A connection that began before there was a route
// fails, so it tries again, with more time on a slow computer.
func connects(ctx context.Context, t *testing.T, a *agent, address string) {
	t.Helper()
	seconds := 1
	eventually(ctx, t, func() bool {
		seconds *= 2
		out, _ := a.run(ctx, t, fmt.Sprintf("./intruder dial tcp %s %d", address, seconds))
		return out == "connected: hello"
	})
}

func dialFrom(ctx context.Context, t *testing.T, a *agent, address string) string {
	t.Helper()
	out, _ := a.run(ctx, t, "./intruder dial tcp "+address)
	return out
}

// dialInVain dials addresses to which packets are dropped, so it ends by a timeout.
func dialInVain(ctx context.Context, t *testing.T, a *agent, addresses ...string) string {
	t.Helper()
	const seconds = 1
	var script strings.Builder
	for _, address := range addresses {
		fmt.Fprintf(&script, "./intruder dial tcp %s %d & ", address, seconds)
	}
	out, _ := a.run(ctx, t, script.String()+"wait")
	return out
}

// onlyFirst fails if a listener reports connections from more than one address.
func onlyFirst(t *testing.T, said string) {
	t.Helper()
	var first string
	for line := range strings.Lines(said) {
		from, ok := strings.CutPrefix(line, "accepted ")
		if !ok {
			continue
		}
		from, _, _ = strings.Cut(from, ":")
		if first = cmp.Or(first, from); from != first {
			t.Errorf("%s and %s could connect", from, first)
		}
	}
	if first == "" {
		t.Errorf("nobody could connect: %s", said)
	}
}

func outbound(ctx context.Context, t *testing.T, alice, bob *agent) {
	for _, a := range []*agent{alice, bob} {
		connects(ctx, t, a, a.suite.Server)
		connects(ctx, t, a, a.suite.ServerName)
	}
	use, err := alice.suite.Client.RoomUsages(ctx, alice.User)
	if err != nil || use[0].Received == 0 || use[0].Sent == 0 {
		t.Errorf("%+v %v", use, err)
	}
}

func roomToRoom(ctx context.Context, t *testing.T, alice, bob *agent) {
	address := alice.Address.String() + ":4712"
	alice.begin(ctx, t, "exec ./intruder listen tcp 0.0.0.0:4712 >/tmp/listener")
	connects(ctx, t, alice, address)
	if out := dialInVain(ctx, t, bob, address); !strings.HasPrefix(out, "unanswered") {
		t.Errorf("bob reaches alice: %s", out)
	}
	connects(ctx, t, alice, address) // now earlier connections are reported
	said, _ := alice.run(ctx, t, "cat /tmp/listener")
	onlyFirst(t, said)
}

func roomToGuest(ctx context.Context, t *testing.T, alice, bob *agent) {
	c := alice.suite.Client
	output(ctx, t, c, "cp "+bob.Home+"/intruder /tmp/intruder")
	stop, cancel := context.WithCancel(ctx)
	hold, feed := io.Pipe()
	p, err := c.Exec(stop, engine.Command{Args: sh("exec /tmp/intruder listen tcp 0.0.0.0:4713 >/tmp/listener"), Stdin: hold})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); feed.Close(); _, _ = p.Wait() }()
	own := subnet.RoomRouter().String()
	guestConnects := func() {
		eventually(ctx, t, func() bool { return output(ctx, t, c, "/tmp/intruder dial tcp "+own+":4713") == "connected: hello" })
	}
	guestConnects()
	if out := dialInVain(ctx, t, bob, own+":4713", subnet.Guest().Addr().String()+":4713"); strings.Count(out, "unanswered") != 2 {
		t.Errorf("bob reaches the guest: %s", out)
	}
	guestConnects() // now earlier connections are reported
	onlyFirst(t, output(ctx, t, c, "cat /tmp/listener"))
}

// noNetwork switches a running room to loopback only.
func noNetwork(ctx context.Context, t *testing.T, _, bob *agent) {
	p := bob.begin(ctx, t, "exec ./intruder listen tcp 127.0.0.1:4714")
	bob.alone = true
	defer func() {
		bob.alone = false
		bob.ensure(ctx, t)
		connects(ctx, t, bob, bob.suite.Server) // switched back
	}()
	bob.ensure(ctx, t)
	alive(ctx, t, bob, p)
	if out := dialFrom(ctx, t, bob, bob.suite.Server); !strings.HasPrefix(out, "refused") {
		t.Errorf("without a network: %s", out)
	}
	connects(ctx, t, bob, "127.0.0.1:4714")
	if out, _ := bob.run(ctx, t, "ls /proc/sys/net/ipv4/conf"); strings.Join(strings.Fields(out), " ") != "all default lo" {
		t.Errorf("its devices: %s", out)
	}
}

// newAddress gives a running room another address.
func newAddress(ctx context.Context, t *testing.T, _, bob *agent) {
	p := bob.begin(ctx, t, "exec ./intruder listen tcp 0.0.0.0:4715")
	room, old := bob.RoomConfig, bob.Address
	room.Address = bob.suite.Join("agent-nobody")
	if _, err := bob.suite.Client.EnsureRoom(ctx, room, bob.token); err != nil {
		t.Fatal(err)
	}
	defer bob.ensure(ctx, t)
	if err := p.Signal(ctx, engine.SIGCONT); err != nil {
		t.Errorf("its process: %v", err)
	}
	connects(ctx, t, bob, bob.suite.Server)
	connects(ctx, t, bob, room.Address.String()+":4715")
	if out, _ := bob.run(ctx, t, "cat /proc/net/fib_trie"); strings.Contains(out, old.String()+"\n") || !strings.Contains(out, room.Address.String()+"\n") {
		t.Errorf("its addresses:\n%s", out)
	}
}

// spoofing sends packets with other sources than a room's own. Programs of a room cannot do that;
// the guest's root does it in bob's network namespace. Only bob's own come out.
func spoofing(ctx context.Context, t *testing.T, alice, bob *agent) {
	c := alice.suite.Client
	p := bob.begin(ctx, t, "exec sleep 1000")
	sources := []string{
		alice.Address.String(), subnet.RoomRouter().String(), subnet.Guest().Addr().String(), subnet.Gateway().String(), bob.suite.Join("agent-nobody").String(),
		"127.0.0.1", "192.0.2.1", "224.0.0.1", "255.255.255.255", bob.Address.String(),
	}
	output(ctx, t, c, "cp "+bob.Home+"/intruder /tmp/intruder")
	spoof := fmt.Sprintf("/tmp/intruder spoof %d %s", p.PID(), strings.Join(sources, " "))
	if out := output(ctx, t, c, spoof); out != "from "+bob.Address.String() {
		t.Errorf("these came out:\n%s", out)
	}
	for _, who := range []func(context.Context, *testing.T, string) (string, engine.Exit){bob.run, bob.asRoot} {
		if out, exit := who(ctx, t, bob.Home+"/intruder raw"); exit.Status() != 0 || strings.Contains(out, " ok") || strings.Count(out, "\n") != 2 {
			t.Errorf("raw sockets: %+v\n%s", exit, out)
		}
	}
}
