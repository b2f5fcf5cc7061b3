package link

import (
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// segment returns a packet of TCP as the stack makes them.
func segment(port uint16, flags header.TCPFlags, options int, payload string) *stack.PacketBuffer {
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{
		ReserveHeaderBytes: header.EthernetMinimumSize + header.IPv4MinimumSize + header.TCPMinimumSize + options,
		Payload:            buffer.MakeWithData([]byte(payload)),
	})
	tcp := header.TCP(pkt.TransportHeader().Push(header.TCPMinimumSize + options))
	tcp.Encode(&header.TCPFields{SrcPort: 80, DstPort: port, Flags: flags, DataOffset: uint8(header.TCPMinimumSize + options)})
	header.IPv4(pkt.NetworkHeader().Push(header.IPv4MinimumSize)).Encode(&header.IPv4Fields{
		SrcAddr: tcpip.AddrFrom4([4]byte{203, 0, 113, 5}), DstAddr: tcpip.AddrFrom4(allowedSource.As4()),
	})
	pkt.TransportProtocolNumber = header.TCPProtocolNumber
	return pkt
}

func TestAcknowledgementsWaitForWhatCarriesThem(t *testing.T) {
	const ack, timestamps, sack = header.TCPFlagAck, 12, 20
	sent := make(chan []*stack.PacketBuffer, 10)
	a := acks{held: map[flow]*stack.PacketBuffer{}, waiting: true, send: func(list []*stack.PacketBuffer) { sent <- list }}
	for _, step := range []struct {
		name string
		pkt  *stack.PacketBuffer
		want bool
		held int
	}{
		{"the first", segment(1, ack, timestamps, ""), true, 1},
		{"that of another flow", segment(2, ack, 0, ""), true, 2},
		{"the second", segment(1, ack, timestamps, ""), false, 1},
		{"data", segment(2, ack|header.TCPFlagPsh, 0, "x"), false, 0},
		{"data alone", segment(2, ack, 0, "x"), false, 0},
		{"what names missing data", segment(1, ack, sack, ""), false, 0},
		{"a handshake", segment(1, ack|header.TCPFlagSyn, 0, ""), false, 0},
		{"an end", segment(1, ack|header.TCPFlagFin, 0, ""), false, 0},
		{"a reset", segment(1, header.TCPFlagRst, 0, ""), false, 0},
		{"the third", segment(1, ack, timestamps, ""), true, 1},
	} {
		if got := a.hold(step.pkt, true); got != step.want || len(a.held) != step.held {
			t.Errorf("%s: held %v, %d in all; want %v and %d", step.name, got, len(a.held), step.want, step.held)
		}
	}
	for port := range uint16(2 * maxAcks) {
		a.hold(segment(port, ack, 0, ""), true)
	}
	if len(a.held) > maxAcks {
		t.Errorf("%d are held", len(a.held))
	}
	a.release()
	if list := <-sent; len(list) != maxAcks || len(a.held) != 0 {
		t.Errorf("sent %d, held %d", len(list), len(a.held))
	}
	a.hold(segment(1, ack, 0, ""), true)
	select {
	case list := <-sent:
		if len(list) != 1 {
			t.Errorf("sent %d", len(list))
		}
	case <-time.After(testPatience):
		t.Error("an acknowledgement was never sent")
	}
}
