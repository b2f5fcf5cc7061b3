package network

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/network/networktest"
	"osaurus-sandbox/network/policy"
)

const (
	tries = 20000
	// floodMemory is what the gateway may take above idle.
	floodMemory = 64 << 20
)

// memory returns the memory of this process, without what the runtime could give back.
func memory() int {
	debug.FreeOSMemory()
	return held()
}

// held returns the memory that the runtime has of the system.
func held() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.Sys - m.HeapReleased)
}

// segment returns a frame with a TCP or UDP packet.
func segment(from, to netip.AddrPort, tcp bool, flags header.TCPFlags, payload string) []byte {
	const ethernet, ip = header.EthernetMinimumSize, header.IPv4MinimumSize
	transport, protocol := header.UDPMinimumSize, uint8(header.UDPProtocolNumber)
	if tcp {
		transport, protocol = header.TCPMinimumSize, uint8(header.TCPProtocolNumber)
	}
	f := append(make([]byte, ethernet+ip+transport), payload...)
	guest, _ := net.ParseMAC(subnet.GuestMAC)
	gateway, _ := net.ParseMAC(subnet.GatewayMAC)
	header.Ethernet(f).Encode(&header.EthernetFields{
		SrcAddr: tcpip.LinkAddress(guest), DstAddr: tcpip.LinkAddress(gateway), Type: header.IPv4ProtocolNumber,
	})
	source, destination := tcpip.AddrFrom4(from.Addr().As4()), tcpip.AddrFrom4(to.Addr().As4())
	h := header.IPv4(f[ethernet:])
	h.Encode(&header.IPv4Fields{TotalLength: uint16(len(f) - ethernet), TTL: 64, Protocol: protocol, SrcAddr: source, DstAddr: destination})
	h.SetChecksum(^h.CalculateChecksum())
	pseudo := header.PseudoHeaderChecksum(tcpip.TransportProtocolNumber(protocol), source, destination, uint16(transport+len(payload)))
	if tcp {
		s := header.TCP(f[ethernet+ip:])
		s.Encode(&header.TCPFields{SrcPort: from.Port(), DstPort: to.Port(), SeqNum: 1, DataOffset: header.TCPMinimumSize, Flags: flags, WindowSize: 65535})
		s.SetChecksum(^s.CalculateChecksum(checksum.Checksum([]byte(payload), pseudo)))
	} else {
		u := header.UDP(f[ethernet+ip:])
		u.Encode(&header.UDPFields{SrcPort: from.Port(), DstPort: to.Port(), Length: uint16(transport + len(payload))})
	}
	return f
}

func (l *lab) send(frame []byte) {
	l.t.Helper()
	if _, err := l.guest.Wire.Write(frame); err != nil {
		l.t.Fatal(err)
	}
}

// floodLab has a mallory who floods, and alice, whose echo must still work.
func floodLab(t *testing.T) (*lab, netip.Addr, net.Conn) {
	l := newLab(t, func(g *Gateway) { g.options.Record = nil })
	l.internet.Serve(t, netip.AddrPortFrom(server, 7), networktest.Echo)
	mallory := l.room("mallory", func(t policy.Target) policy.Decision {
		if t.Port == 9999 || t.Addr.IsPrivate() {
			return denied
		}
		return allowed
	})
	alice := l.talk(l.alice, server, 7)
	t.Cleanup(func() { alice.Close() })
	return l, mallory, alice
}

// during runs a flood, and checks the neighbour and the memory meanwhile.
func (l *lab) during(alice net.Conn, flood func(i int)) {
	t := l.t
	t.Helper()
	idle, most, slowest := memory(), 0, time.Duration(0)
	for i := range tries {
		flood(i)
		if i%(tries/20) == 0 {
			began := time.Now()
			if err := echoes(alice); err != nil {
				t.Fatalf("the neighbour's echo after %d tries: %v", i, err)
			}
			fresh := l.talk(l.alice, server, 7)
			fresh.Close()
			slowest = max(slowest, time.Since(began))
			most = max(most, held())
		}
	}
	most = max(most, held())
	above := most - idle
	t.Logf("%.1f MiB above idle, the neighbour waited at most %v, %d goroutines, %+v", float64(above)/(1<<20), slowest, runtime.NumGoroutine(), l.Stats())
	if above > floodMemory && !raceEnabled {
		t.Errorf("the flood took %d MiB", above>>20)
	}
}

func TestFloodOfConnections(t *testing.T) {
	for _, tt := range []struct {
		name string
		to   netip.AddrPort
	}{
		{"refused", netip.AddrPortFrom(server, 9999)},
		{"prohibited", netip.AddrPortFrom(private, 22)},
		{"closed ports", netip.AddrPortFrom(server, 9)},
		{"half open", netip.AddrPortFrom(server, 7)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, mallory, alice := floodLab(t)
			// The guest's stack would reset what it did not begin, so mallory has no address there.
			if err := l.guest.Remove(mallory); err != nil {
				t.Fatal(err)
			}
			l.during(alice, func(i int) {
				from := netip.AddrPortFrom(mallory, uint16(1024+i))
				l.send(segment(from, tt.to, true, header.TCPFlagSyn, ""))
			})
		})
	}
}

func TestFloodOfDatagrams(t *testing.T) {
	l, mallory, alice := floodLab(t)
	l.internet.ServeUDP(t, netip.AddrPortFrom(server, 5000), func(b []byte) []byte { return b })
	payload := strings.Repeat("x", 1400)
	l.during(alice, func(i int) {
		from := netip.AddrPortFrom(mallory, uint16(1024+i))
		l.send(segment(from, netip.AddrPortFrom(server, 5000), false, 0, payload))
	})
}

func TestFloodOfQueries(t *testing.T) {
	l, mallory, alice := floodLab(t)
	l.during(alice, func(i int) {
		query := make([]byte, 12)
		binary.BigEndian.PutUint16(query, uint16(i))
		query[2], query[5] = 1, 1
		label := fmt.Sprintf("n%d", i)
		query = append(append(append(query, byte(len(label))), label...), "\x04evil\x07example\x00\x00\x01\x00\x01"...)
		from := netip.AddrPortFrom(mallory, uint16(1024+i))
		l.send(segment(from, netip.AddrPortFrom(subnet.Gateway(), 53), false, 0, string(query)))
	})
}

func TestFloodOfFragments(t *testing.T) {
	l, mallory, alice := floodLab(t)
	payload := strings.Repeat("x", 1400)
	l.during(alice, func(i int) {
		f := segment(netip.AddrPortFrom(mallory, 1024), netip.AddrPortFrom(server, 5000), false, 0, payload)
		h := header.IPv4(f[header.EthernetMinimumSize:])
		h.SetID(uint16(i))
		h.SetFlagsFragmentOffset(header.IPv4FlagMoreFragments, 1416)
		h.SetChecksum(0)
		h.SetChecksum(^h.CalculateChecksum())
		l.send(f)
	})
}

func TestLeaveEndsHandshakes(t *testing.T) {
	l := newLab(t)
	l.internet.Serve(t, netip.AddrPortFrom(server, 7), networktest.Echo)
	if err := l.guest.Remove(l.alice); err != nil {
		t.Fatal(err)
	}
	l.send(segment(netip.AddrPortFrom(l.alice, 1024), netip.AddrPortFrom(server, 7), true, header.TCPFlagSyn, ""))
	synAcks := l.stack.Stats().TCP.SegmentsSent
	waitFor(t, "the answer to the SYN", func() bool { return synAcks.Value() > 0 })
	l.Leave("alice")
	if f := l.flow(); f.Error != errLeft.Error() {
		t.Errorf("recorded %+v", f)
	}
}

func TestHeldConnectionsAreBounded(t *testing.T) {
	var waiting, most atomic.Int64
	release := make(chan struct{})
	l := newLab(t, func(g *Gateway) {
		g.options.Record = nil
		g.options.Ask = func(ctx context.Context, _ Subject, _ policy.Target) bool {
			most.Store(max(most.Load(), waiting.Add(1)))
			defer waiting.Add(-1)
			select {
			case <-ctx.Done():
			case <-release:
			}
			return false
		}
	})
	mallory := l.room("mallory", func(policy.Target) policy.Decision { return asked })
	for i := range 10 * maxHeld {
		l.send(segment(netip.AddrPortFrom(mallory, uint16(1024+i)), netip.AddrPortFrom(server, 22), i%2 == 0, header.TCPFlagSyn, "x"))
	}
	waitFor(t, "the others to be refused", func() bool { return l.Stats().Limited >= 9*maxHeld })
	if n := waiting.Load(); n > maxHeld {
		t.Errorf("%d connections wait for an answer", n)
	}
	close(release)
	waitFor(t, "all to be refused", func() bool { return l.Stats().Flows == 0 })
	budget := l.members.at(mallory).budget
	for _, limit := range []*limit{&budget.flows, &budget.halfOpen, &budget.held, &budget.datagrams, &l.allFlows, &l.allHalfOpen} {
		waitFor(t, "all to be given back", func() bool { return limit.used.Load() == 0 })
	}
	if most.Load() > maxHeld || most.Load() == 0 {
		t.Errorf("at most %d connections waited", most.Load())
	}
}

// TestFloodOfSlowReaders has a room and its server each send without reading.
func TestFloodOfSlowReaders(t *testing.T) {
	l, mallory, alice := floodLab(t)
	// The guest's own buffers are in this process too.
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4096, Default: 4096, Max: 4096}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4096, Default: 4096, Max: 4096}
	for _, o := range []tcpip.SettableTransportProtocolOption{&receive, &send} {
		if err := l.guest.Stack.SetTransportProtocolOption(header.TCPProtocolNumber, o); err != nil {
			t.Fatal(err)
		}
	}
	chunk := make([]byte, 64<<10)
	l.internet.Serve(t, netip.AddrPortFrom(server, 70), func(c net.Conn) {
		for {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
	})
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	l.during(alice, func(i int) {
		if len(open) >= maxFlows+10 && i%100 != 0 {
			return
		}
		c, err := l.dial(mallory, server, 70)
		if err != nil {
			return
		}
		open = append(open, c)
		// What the room sends meets a server that does not read.
		c.SetWriteDeadline(time.Now().Add(5 * time.Millisecond))
		c.Write(chunk)
	})
	if n := l.members.at(mallory).flows.used.Load(); n < maxFlows/2 {
		t.Errorf("only %d flows were open", n)
	}
}
