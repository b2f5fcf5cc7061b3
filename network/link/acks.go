package link

import (
	"maps"
	"slices"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

const (
	// ackDelay is how long an acknowledgement waits for a packet that carries it too. Emulated
	// guests take longer than that for a packet.
	ackDelay = time.Millisecond
	// maxAcks bounds those that wait.
	maxAcks = 256
)

// acks holds acknowledgements without data, since the stack sends one for each packet that it gets,
// and an answer follows most of them at once.
type acks struct {
	mu      sync.Mutex
	held    map[flow]*stack.PacketBuffer
	waiting bool // send will be called
	send    func([]*stack.PacketBuffer)
}

// flow is the two ends of a connection.
type flow struct {
	from, to         tcpip.Address
	fromPort, toPort uint16
}

// hold reports whether it keeps a packet for a moment. It drops what the packet makes superfluous, and
// keeps no second acknowledgement of a flow (RFC 1122).
func (a *acks) hold(pkt *stack.PacketBuffer, alone bool) bool {
	f, bare, ok := parse(pkt)
	if !ok {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if older := a.held[f]; older != nil {
		delete(a.held, f)
		older.DecRef()
		return false
	}
	if !bare || !alone || len(a.held) >= maxAcks {
		return false
	}
	a.held[f] = pkt.IncRef()
	if !a.waiting {
		a.waiting = true
		time.AfterFunc(ackDelay, a.release)
	}
	return true
}

// release sends what is held.
func (a *acks) release() {
	a.mu.Lock()
	list := slices.Collect(maps.Values(a.held))
	clear(a.held)
	a.waiting = false
	a.mu.Unlock()
	a.send(list)
	for _, pkt := range list {
		pkt.DecRef()
	}
}

// parse returns a packet's flow, and whether it only acknowledges what came in order. It reports
// false for packets that acknowledge nothing.
func parse(pkt *stack.PacketBuffer) (f flow, bare, ok bool) {
	ip, tcp := header.IPv4(pkt.NetworkHeader().Slice()), header.TCP(pkt.TransportHeader().Slice())
	if pkt.TransportProtocolNumber != header.TCPProtocolNumber || len(ip) < header.IPv4MinimumSize || len(tcp) < header.TCPMinimumSize {
		return f, false, false
	}
	f = flow{ip.SourceAddress(), ip.DestinationAddress(), tcp.SourcePort(), tcp.DestinationPort()}
	const timestamps = 12 // with more options, it names what is missing
	bare = tcp.Flags() == header.TCPFlagAck && pkt.Data().Size() == 0 && len(tcp) <= header.TCPMinimumSize+timestamps
	return f, bare, tcp.Flags().Contains(header.TCPFlagAck)
}
