//go:build linux

package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/internal/subnet"
)

// place is a network namespace of its own.
type place struct{ *os.File }

func newPlace(t *testing.T) place {
	t.Helper()
	f, err := NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return place{f}
}

// do runs f in the place.
func (p place) do(t *testing.T, f func() error) {
	t.Helper()
	if err := process.InNamespaces(int(p.Fd()), unix.CLONE_NEWNET, f); err != nil {
		t.Fatal(err)
	}
}

// connect replaces the wire between a guest and the gateway by a cable.
func connect(t *testing.T, guest, gateway place) {
	t.Helper()
	guest.do(t, func() error {
		m := linkMessage(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, 0, 0)
		m.end(device, subnet.GuestMAC)
		m.nest(unix.IFLA_LINKINFO, func() {
			m.text(unix.IFLA_INFO_KIND, "veth")
			m.nest(unix.IFLA_INFO_DATA, func() {
				m.nest(1, func() {
					m.body = append(m.body, make([]byte, unix.SizeofIfInfomsg)...)
					m.end(device, subnet.GatewayMAC)
					m.number(unix.IFLA_NET_NS_FD, uint32(gateway.Fd()))
				})
			})
		})
		return send(unix.NETLINK_ROUTE, m)
	})
	gateway.do(t, func() error { return attach(device, subnet.Guest().Addr(), subnet.GuestMAC, subnet.Gateway()) })
}

// rig is a guest with two rooms and a gateway: network namespaces of this computer.
type rig struct {
	*testing.T
	guest, gateway, alice, bob place
}

const alices, bobs = 2001, 2002 // users

func ofAlice() netip.Addr   { return subnet.RoomRouter().Next() }
func ofBob() netip.Addr     { return ofAlice().Next() }
func elsewhere() netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, 1}) }

func newRig(t *testing.T) rig {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("*** NOT TESTED: only root can make network namespaces")
	}
	r := rig{t, newPlace(t), newPlace(t), newPlace(t), newPlace(t)}
	connect(t, r.guest, r.gateway)
	r.guest.do(t, func() error {
		return errors.Join(Loopback(), Configure(),
			Connect(RoomCable(alices), ofAlice(), r.alice.File),
			Connect(RoomCable(bobs), ofBob(), r.bob.File))
	})
	return r
}

// port is where all datagrams of the tests come from and go to.
const port = 4000

// send sends datagrams with any source: with the capabilities that rooms lack.
func (r rig) send(p place, to netip.Addr, sources ...netip.Addr) {
	r.Helper()
	p.do(r.T, func() error {
		raw, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(raw)
		if err := unix.SetsockoptInt(raw, unix.SOL_SOCKET, unix.SO_BROADCAST, 1); err != nil {
			return err
		}
		for _, s := range sources {
			b := make([]byte, 28) // the headers of IPv4 and UDP
			b[0], b[8], b[9] = 0x45, 64, unix.IPPROTO_UDP
			copy(b[12:], s.AsSlice())
			copy(b[16:], to.AsSlice())
			for i, v := range []uint16{port, port, 8} {
				binary.BigEndian.PutUint16(b[20+2*i:], v)
			}
			if err := unix.Sendto(raw, b, 0, &unix.SockaddrInet4{Addr: to.As4()}); err != nil {
				return fmt.Errorf("from %v: %w", s, err)
			}
		}
		return nil
	})
}

// all are the packets that a device gets, of any protocol, in network order.
const all = 0x0300

// watch returns the sources of the datagrams that a place gets, before one from last. With family
// AF_PACKET they are those that reach its device, and with AF_INET those that reach its programs.
func (r rig) watch(p place, family int, last netip.Addr) func() []string {
	r.Helper()
	fd := -1
	p.do(r.T, func() (err error) {
		if family == unix.AF_PACKET {
			fd, err = unix.Socket(family, unix.SOCK_DGRAM, all)
		} else {
			fd, err = unix.Socket(family, unix.SOCK_RAW, unix.IPPROTO_UDP)
		}
		if err != nil {
			return err
		}
		return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 30})
	})
	return func() (list []string) {
		r.Helper()
		defer unix.Close(fd)
		var b [2048]byte
		for {
			n, _, err := unix.Recvfrom(fd, b[:], 0)
			if err != nil {
				r.Fatalf("%v; before that %v", err, list)
			}
			if n < 28 || b[0] != 0x45 || b[9] != unix.IPPROTO_UDP || binary.BigEndian.Uint16(b[22:]) != port {
				continue
			}
			from := netip.AddrFrom4([4]byte(b[12:16]))
			if from == last {
				return list
			}
			list = append(list, from.String())
		}
	}
}

// TestSources checks that only packets from a room's own addresses leave the guest.
func TestSources(t *testing.T) {
	r := newRig(t)
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	limited := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	got := r.watch(r.gateway, unix.AF_PACKET, ofBob())
	r.send(r.bob, subnet.Gateway(), ofAlice(), subnet.RoomRouter(), subnet.Guest().Addr(), subnet.Gateway(), elsewhere(),
		ofBob().Next(), loopback, limited, netip.AddrFrom4([4]byte{224, 0, 0, 1}), ofBob())
	if list := got(); len(list) > 0 {
		t.Errorf("from bob's room: %v", list)
	}
	for _, c := range []struct { // the guest's own could overtake alice's
		at      place
		sources []netip.Addr
	}{{r.alice, []netip.Addr{ofBob(), ofBob().Next(), ofAlice()}}, {r.guest, []netip.Addr{subnet.Guest().Addr()}}} {
		got = r.watch(r.gateway, unix.AF_PACKET, c.sources[len(c.sources)-1])
		r.send(c.at, elsewhere(), c.sources...)
		if list := got(); len(list) > 0 {
			t.Errorf("before %v: %v", c.sources[len(c.sources)-1], list)
		}
	}
}

// TestDestinations checks that a room reaches neither the guest nor another room, but the gateway
// reaches both.
func TestDestinations(t *testing.T) {
	r := newRig(t)
	multicast, broadcast := netip.AddrFrom4([4]byte{224, 0, 0, 1}), netip.AddrFrom4([4]byte{255, 255, 255, 255})
	for name, c := range map[string]struct {
		to      place
		attacks []netip.Addr
		own     netip.Addr
	}{
		"guest": {r.guest, []netip.Addr{subnet.Guest().Addr(), subnet.RoomRouter(), multicast, broadcast}, subnet.Guest().Addr()},
		"room":  {r.alice, []netip.Addr{ofAlice(), multicast, broadcast}, ofAlice()},
	} {
		got := r.watch(c.to, unix.AF_INET, subnet.Gateway())
		for _, a := range c.attacks {
			r.send(r.bob, a, ofBob())
		}
		r.send(r.gateway, c.own, subnet.Gateway())
		if list := got(); len(list) > 0 {
			t.Errorf("reached the %s: %v", name, list)
		}
	}
}

// TestReconnect moves a room to another address.
func TestReconnect(t *testing.T) {
	r := newRig(t)
	r.guest.do(t, func() error {
		return errors.Join(Disconnect(RoomCable(bobs)), Disconnect(RoomCable(bobs)), Connect(RoomCable(bobs), ofBob().Next(), r.bob.File))
	})
	got := r.watch(r.gateway, unix.AF_PACKET, ofBob().Next())
	r.send(r.bob, elsewhere(), ofBob(), ofBob().Next())
	if list := got(); len(list) > 0 {
		t.Errorf("its earlier address: %v", list)
	}
	r.guest.do(t, func() error { return Disconnect(RoomCable(bobs)) })
	r.bob.do(t, func() error {
		if _, err := net.InterfaceByName(device); err == nil {
			t.Error("the cable is still there")
		}
		return nil
	})
}

// TestEnds checks the network devices of a room and of the guest: they have no IPv6, and the MAC
// addresses of their neighbours are fixed.
func TestEnds(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		at              place
		name, neighbour string
	}{
		{r.bob, device, subnet.RoomRouter().String() + " 0x1 0x6 " + routerMAC},
		{r.guest, device, subnet.Gateway().String() + " 0x1 0x6 " + subnet.GatewayMAC},
		{r.guest, RoomCable(bobs), ofBob().String() + " 0x1 0x6 " + roomMAC},
	} {
		c.at.do(t, func() error {
			six, err := os.ReadFile("/proc/thread-self/net/if_inet6")
			if err != nil || strings.Contains(string(six), c.name) {
				t.Errorf("%s: %v\n%s", c.name, err, six)
			}
			arp, err := os.ReadFile("/proc/thread-self/net/arp")
			if !strings.Contains(strings.Join(strings.Fields(string(arp)), " "), c.neighbour+" * "+c.name) {
				t.Errorf("%s: no %q in\n%s", c.name, c.neighbour, arp)
			}
			return err
		})
	}
}
