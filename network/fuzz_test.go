package network

import (
	"net/netip"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"

	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/network/networktest"
	"osaurus-sandbox/network/policy"
)

// FuzzFrames sends packets of a room as they come. The gateway still answers a ping afterwards.
func FuzzFrames(f *testing.F) {
	g := newGateway(Options{Dialer: networktest.NewInternet()})
	g.policy = func(Subject) rules {
		return testRules{decide: func(policy.Target) policy.Decision { return allowed }}
	}
	wire, err := g.listen()
	if err != nil {
		f.Fatal(err)
	}
	room, err := g.Join(Subject{Agent: "alice"})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		wire.Close()
		g.Close()
	})
	from, to := netip.AddrPortFrom(room, 1024), netip.AddrPortFrom(server, 80)
	const ethernet = header.EthernetMinimumSize
	for _, frame := range [][]byte{
		segment(from, to, true, header.TCPFlagSyn, ""),
		segment(from, to, true, header.TCPFlagSyn|header.TCPFlagAck, "x"),
		segment(from, to, true, header.TCPFlagRst, ""),
		segment(from, netip.AddrPortFrom(server, 53), false, 0, "\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"),
		segment(from, netip.AddrPortFrom(server, 5000), false, 0, "x"),
		echoRequest(room, server),
	} {
		f.Add(frame[ethernet:])
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		packet = packet[:min(len(packet), subnet.MTU)]
		frame := append(segment(from, to, true, 0, "")[:ethernet:ethernet], packet...)
		if len(packet) >= header.IPv4MinimumSize {
			source := room.As4()
			copy(frame[ethernet+12:], source[:]) // others are dropped by the link
			h := header.IPv4(frame[ethernet:])
			h.SetChecksum(0)
			if length := int(h.HeaderLength()); length >= header.IPv4MinimumSize && length <= len(packet) {
				h.SetChecksum(^h.CalculateChecksum())
			}
		}
		wire.SetDeadline(time.Now().Add(patience))
		for _, frame := range [][]byte{frame, echoRequest(room, subnet.Gateway())} {
			if _, err := wire.Write(frame); err != nil {
				t.Fatal(err)
			}
		}
		for buf := make([]byte, 2000); ; {
			n, err := wire.Read(buf)
			if err != nil {
				t.Fatalf("the gateway does not answer: %v", err)
			}
			h := header.IPv4(buf[ethernet:n])
			if h.Protocol() == uint8(header.ICMPv4ProtocolNumber) && header.ICMPv4(h.Payload()).Type() == header.ICMPv4EchoReply {
				return
			}
		}
	})
}

func echoRequest(from, to netip.Addr) []byte {
	f := segment(netip.AddrPortFrom(from, 0), netip.AddrPortFrom(to, 0), false, 0, "ping")
	h := header.IPv4(f[header.EthernetMinimumSize:])
	h[9] = uint8(header.ICMPv4ProtocolNumber)
	h.SetChecksum(0)
	h.SetChecksum(^h.CalculateChecksum())
	m := header.ICMPv4(h.Payload())
	clear(m[:header.ICMPv4MinimumSize])
	m.SetType(header.ICMPv4Echo)
	m.SetChecksum(header.ICMPv4Checksum(m, 0))
	return f
}
