//go:build !vzstandin

package e2e_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip/header"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/network"
	"osaurus-sandbox/supervisor/machine"
)

// noPacket tries every kind of packet in a room without a network. None leaves the guest.
func (g *gatewayTest) noPacket(t *testing.T) {
	attempts := []string{
		"tcp " + site + ":9000", "tcp 10.0.2.2:53", "tcp " + g.address(t, "alice").String() + ":9000", "udp " + site + ":9000", "ping " + site, "ping 10.0.2.2",
		"dns udp 10.0.2.2:53 " + otherHost + " A", "dns tcp 8.8.8.8:53 " + otherHost + " A", "http https://" + otherHost + "/", "mapped [::ffff:" + site + "]:9000",
		"udp 255.255.255.255:67", "udp 10.0.2.255:4000", "udp 224.0.0.251:5353", "udp 239.255.255.250:1900", "tcp 169.254.169.254:80",
		"tcp [2606:4700:4700::1111]:443", "udp [ff02::fb%eth0]:5353", "udp [ff02::1:2%eth0]:547", "udp [fe80::1%eth0]:4000", "udp [ff02::2%lo]:4000",
	}
	g.between(t)
	for _, root := range []bool{false, true} {
		for i, said := range g.probe(t, "dave", root, attempts...) {
			if strings.HasPrefix(said, "connected") || strings.HasPrefix(said, "answered: ping") || strings.HasPrefix(said, "echo") || strings.Contains(said, "NOERROR") || strings.Contains(said, "200 OK") {
				t.Errorf("%s: %s", attempts[i], said)
			}
		}
		if out := g.trick(t, "dave", root, nil, "raw"); strings.Contains(out, " ok") || strings.Count(out, "\n") != 2 {
			t.Errorf("raw sockets: %s", out)
		}
		g.trick(t, "dave", root, nil, "rewire")
	}
	for _, f := range g.between(t) {
		t.Errorf("this left the guest: %x", f)
	}
}

// between returns the frames since its last call, without those that alice sends in the end.
func (g *gatewayTest) between(t *testing.T) (frames [][]byte) {
	t.Helper()
	if said := g.probe(t, "alice", false, "udp "+site+":9000"); said[0] != "answered: ping" {
		t.Fatalf("alice's packet: %s", said)
	}
	alice, own := g.address(t, "alice"), 0
	for _, f := range g.wire.take() {
		if a, ok := from(f); ok && a == alice {
			own++
		} else {
			frames = append(frames, f)
		}
	}
	if own == 0 {
		t.Error("alice's packet was not seen")
	}
	return frames
}

// rewire tries to change the network of a room that only reaches one host. Nothing changes, and what leaves
// the guest is the room's own and goes where it may.
func (g *gatewayTest) rewire(t *testing.T) {
	g.between(t)
	dialed := len(g.internet.Dials())
	// A kernel without the part that would do it says that there is none. It does not look at the request.
	refusals := []string{"EPERM", "EACCES", "EROFS", "ENOENT", "ENOPKG", "EPROTONOSUPPORT"}
	who, err := g.server.Agents.Get("bob")
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range []bool{false, true} {
		out := g.trick(t, "bob", root, nil, "rewire")
		for line := range strings.Lines(out) {
			what, answer, _ := strings.Cut(strings.TrimSpace(line), " ")
			if what != "socket" && !slices.Contains(refusals, answer) {
				t.Errorf("as root %v: %s: %s", root, what, answer)
			}
		}
		if n := strings.Count(out, "\n"); n < 25 {
			t.Errorf("%d lines: %s", n, out)
		}
		// Programs that gain rights when they start gain none here.
		script := "cd /tmp && cp " + who.Home() + "/intruder helper && chmod 6755 helper && ./helper rewire | grep ' ok$'"
		if out := g.exec(t, control.RunAs{Agent: "bob"}, engine.Command{RoomRoot: root, Args: []string{"sh", "-c", script}}); out != "socket ok" {
			t.Errorf("a setuid helper: %s", out)
		}
		for i, want := range []string{"200 OK", "connection refused", "no route to host"} {
			to := []string{"http https://" + otherHost + "/", "tcp " + untold + ":9000", "tcp " + private + ":9000"}[i]
			if said := g.probe(t, "bob", root, to)[0]; !strings.Contains(said, want) {
				t.Errorf("as root %v: %s: %s, want %s", root, to, said, want)
			}
		}
	}
	bob := g.address(t, "bob")
	for _, f := range g.between(t) {
		if a, ok := from(f); !ok || a != bob {
			t.Errorf("this left the guest: %x", f)
		}
	}
	for _, d := range g.internet.Dials()[dialed:] {
		if d.Name != otherHost && d.Protocol != "udp" {
			t.Errorf("the gateway connected to %+v", d)
		}
	}
}

// takenOver sends frames as a guest whose kernel obeys an attacker. It can speak as any room, and
// only that: it reaches what the rooms may, together.
func (g *gatewayTest) takenOver(t *testing.T) {
	alice, bob, nobody := g.address(t, "alice"), g.address(t, "bob"), netip.MustParseAddr("198.18.250.7")
	to := func(address string) netip.AddrPort { return netip.MustParseAddrPort(address + ":9000") }
	lease, ok := g.server.Sandbox.Peek()
	if !ok {
		t.Fatal("no guest runs")
	}
	defer lease.Release()
	before, dialed := lease.Gateway().Stats(), len(g.internet.Dials())
	ignored := [][]byte{
		{}, {1}, make([]byte, 60),
		datagram(alice, to(site), func(e *header.EthernetFields) { e.SrcAddr = "\x02\x00\x00\x00\x00\x01" }),
		datagram(alice, to(site), func(e *header.EthernetFields) { e.DstAddr = "\xff\xff\xff\xff\xff\xff" }),
		datagram(alice, to(site), func(e *header.EthernetFields) { e.Type = 0x8100 }), // VLAN
		datagram(alice, to(site), func(e *header.EthernetFields) { e.Type = header.ARPProtocolNumber }),
		datagram(alice, to(site), func(e *header.EthernetFields) { e.Type = header.IPv6ProtocolNumber }),
	}
	for _, source := range []netip.Addr{nobody, subnet.Gateway(), subnet.RoomRouter(), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("0.0.0.0"), netip.MustParseAddr("255.255.255.255"), netip.MustParseAddr("192.168.1.1")} {
		ignored = append(ignored, datagram(source, to(site), nil))
	}
	refused := [][]byte{datagram(alice, to(private), nil), datagram(bob, to(untold), nil), datagram(alice, to("10.0.2.2"), nil), datagram(alice, to("169.254.169.254"), nil)}
	for _, f := range append(ignored, refused...) {
		g.wire.inject(f)
	}
	var now network.Stats
	sum := func(s network.Stats) uint64 { return s.Link.Alien + s.Link.Spoofed }
	timetest.Eventually(t, "the gateway has dropped or refused them", func() bool {
		now = lease.Gateway().Stats()
		return sum(now)-sum(before) >= uint64(len(ignored)) && now.Refused-before.Refused >= uint64(len(refused))
	})
	if list := g.internet.Dials()[dialed:]; len(list) > 0 {
		t.Errorf("the gateway connected to %v", list)
	}
	g.wire.inject(datagram(alice, to(site), nil))
	timetest.Eventually(t, "it speaks as alice", func() bool { return len(g.internet.Dials()) > dialed })
}

// dies ends the gateway under a running guest. The network ends with it and nothing else; the next
// start brings it back.
func (g *gatewayTest) dies(t *testing.T) {
	reaches := func(seconds string) string {
		return g.trick(t, "alice", false, nil, "dial", "tcp", site+":9000", seconds)
	}
	const patience = "60"
	if said := reaches(patience); said != "connected: hello" {
		t.Fatalf("before: %s", said)
	}
	lease, ok := g.server.Sandbox.Peek()
	if !ok {
		t.Fatal("no guest runs")
	}
	err := lease.Gateway().Close()
	lease.Release()
	if err != nil {
		t.Fatal(err)
	}
	dialed := len(g.internet.Dials())
	for range 2 {
		if said := reaches("5"); !strings.HasPrefix(said, "unanswered") && !strings.HasPrefix(said, "refused") {
			t.Errorf("without the gateway: %s", said)
		}
	}
	if list := g.internet.Dials()[dialed:]; len(list) > 0 {
		t.Errorf("it connected to %v", list)
	}
	for _, agent := range []string{"alice", "dave"} {
		if out := g.script(t, agent, "echo kept > ~/kept && cat ~/kept"); out != "kept" {
			t.Errorf("%s: %s", agent, out)
		}
	}
	if out := g.script(t, "alice", "osaurus-host secrets get TOKEN"); !strings.HasPrefix(out, "osr_") {
		t.Errorf("the bridge: %s", out)
	}
	if state := g.server.Sandbox.Status().State; state != machine.Running {
		t.Errorf("the sandbox is %s", state)
	}
	if _, err := g.Restart(t.Context(), &controlpb.MachineRequest{}); err != nil {
		t.Fatal(err)
	}
	if said := reaches(patience); said != "connected: hello" {
		t.Errorf("after a restart: %s", said)
	}
	if out := g.script(t, "alice", "cat ~/kept"); out != "kept" {
		t.Errorf("after a restart: %s", out)
	}
}

// address returns the address of a room.
func (g *gatewayTest) address(t *testing.T, agent string) netip.Addr {
	t.Helper()
	who, err := g.server.Agents.Get(agent)
	if err != nil {
		t.Fatal(err)
	}
	lease, ok := g.server.Sandbox.Peek()
	if !ok {
		t.Fatal("no guest runs")
	}
	defer lease.Release()
	a, err := lease.Gateway().Join(network.Subject{Agent: who.ID})
	if err != nil {
		t.Fatal(err)
	}
	return a
}
