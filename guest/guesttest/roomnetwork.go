package guesttest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/engine"
)

// networkCases check what a room reaches.
func networkCases() []roomCase {
	return []roomCase{{"Outbound", outbound}, {"RoomToRoom", roomToRoom}, {"None", noNetwork}}
}

// moreNetworkCases do not depend on the distribution.
func moreNetworkCases() []roomCase {
	return []roomCase{{"RoomToGuest", roomToGuest}, {"Host", noHost}, {"Outside", outside}, {"IPv6", onlyLoopbackHasIPv6}}
}

// connections fills bob's part of the kernel's table of connections. Alice can still connect.
func connections(ctx context.Context, t *testing.T, alice, bob *agent) {
	const most = 4096
	c := alice.suite.Client
	// The next room enlarges a table that is too small.
	const table = "/proc/sys/net/netfilter/nf_conntrack_max"
	output(ctx, t, c, fmt.Sprint("echo ", most, " >", table))
	if err := c.RemoveRoom(ctx, alice.User, false); err != nil {
		t.Fatal(err)
	}
	if alice.ensure(ctx, t); output(ctx, t, c, "cat "+table) == fmt.Sprint(most) {
		t.Error("the table stays small")
	}
	uplink := mustInfo(ctx, t, c).Network.Address
	nobody := uplink[:strings.LastIndex(uplink, ".")] + ".77" // does not exist, so packets wait
	const setting = "/proc/sys/net/netfilter/nf_conntrack_udp_timeout"
	usual := output(ctx, t, c, "cat "+setting)
	defer output(ctx, t, c, "echo "+usual+" >"+setting)
	count := func() (n int) {
		if _, err := fmt.Sscan(output(ctx, t, c, "cat /proc/sys/net/netfilter/nf_conntrack_count"), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	// On a slow computer the kernel forgets connections while bob makes more.
	remembered := 10 // seconds
	eventually(ctx, t, func() bool {
		remembered *= 2
		output(ctx, t, c, fmt.Sprint("echo ", remembered, " >"+setting))
		const others = 100 // connections
		if out, exit := bob.run(ctx, t, fmt.Sprint("./intruder hog-connections ", nobody, " ", most+2*others)); exit.Status() != 0 {
			t.Fatal(out)
		}
		n := count()
		if n > most+others {
			t.Errorf("the table holds %d connections", n)
		}
		return n >= most && strings.HasPrefix(dialInVain(ctx, t, bob, bob.suite.Server), "unanswered") &&
			dialFrom(ctx, t, alice, alice.suite.Server) == "connected: hello"
	})
	connects(ctx, t, bob, bob.suite.Server)
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
	}
	use, err := alice.suite.Client.RoomUsages(ctx, alice.User)
	if err != nil || use[0].Received == 0 || use[0].Sent == 0 {
		t.Errorf("%+v %v", use, err)
	}
}

// addressOf returns the address of a room.
func addressOf(ctx context.Context, t *testing.T, a *agent) string {
	t.Helper()
	out, _ := a.run(ctx, t, "cat /proc/net/fib_trie")
	for line := range strings.Lines(out) {
		if i := strings.Index(line, "198.18.1"); i >= 0 {
			return strings.TrimSpace(line[i:])
		}
	}
	t.Fatalf("%s has no address:\n%s", a.User, out)
	return ""
}

func roomToRoom(ctx context.Context, t *testing.T, alice, bob *agent) {
	address := addressOf(ctx, t, alice) + ":4712"
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
	const own = "198.18.0.1"
	guestConnects := func() {
		eventually(ctx, t, func() bool { return output(ctx, t, c, "/tmp/intruder dial tcp "+own+":4713") == "connected: hello" })
	}
	guestConnects()
	info := mustInfo(ctx, t, c)
	uplink, _, _ := strings.Cut(info.Network.Address, "/")
	if out := dialInVain(ctx, t, bob, own+":4713", uplink+":4713"); strings.Count(out, "unanswered") != 2 {
		t.Errorf("bob reaches the guest: %s", out)
	}
	guestConnects() // now earlier connections are reported
	onlyFirst(t, output(ctx, t, c, "cat /tmp/listener"))
}

// noNetwork switches a running room to loopback only.
func noNetwork(ctx context.Context, t *testing.T, _, bob *agent) {
	p := bob.begin(ctx, t, "exec ./intruder listen tcp 127.0.0.1:4714")
	bob.Network = engine.RoomAlone
	defer func() {
		bob.Network = engine.RoomOutbound
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

// noHost takes the host's services from a running room, except name servers. Connections are refused
// at once.
func noHost(ctx context.Context, t *testing.T, alice, bob *agent) {
	info := mustInfo(ctx, t, bob.suite.Client)
	_, port, _ := strings.Cut(bob.suite.Server, ":")
	bob.HostServices = false
	defer func() {
		bob.HostServices = true
		bob.ensure(ctx, t)
		connects(ctx, t, bob, bob.suite.Server) // switched back
	}()
	bob.ensure(ctx, t)
	for _, address := range []string{bob.suite.Server, info.Network.DNS[0] + ":" + port} {
		if out := dialFrom(ctx, t, bob, address); !strings.HasPrefix(out, "refused") || !strings.Contains(out, unix.EHOSTUNREACH.Error()) {
			t.Errorf("bob reaches the host at %s: %s", address, out)
		}
	}
	// The host answers, whether or not it has a name server.
	if out := dialFrom(ctx, t, bob, info.Network.Gateway+":53"); !strings.HasPrefix(out, "connected") && !strings.Contains(out, unix.ECONNREFUSED.Error()) {
		t.Errorf("bob does not reach name servers: %s", out)
	}
	connects(ctx, t, alice, alice.suite.Server)
}

// outside checks that a room without the host's services reaches other networks.
func outside(ctx context.Context, t *testing.T, _, bob *agent) {
	if bob.suite.Outside == "" {
		t.Skip("*** NOT TESTED: this host has no address in a network")
	}
	bob.HostServices = false
	defer func() {
		bob.HostServices = true
		bob.ensure(ctx, t)
	}()
	bob.ensure(ctx, t)
	connects(ctx, t, bob, bob.suite.Outside)
	if out := dialFrom(ctx, t, bob, bob.suite.Server); !strings.HasPrefix(out, "refused") {
		t.Errorf("bob reaches the host's loopback: %s", out)
	}
}
