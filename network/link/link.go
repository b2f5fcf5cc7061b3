// Package link connects a gVisor stack to one end of a datagram socket pair that carries Ethernet
// frames.
package link

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"osaurus-sandbox/internal/subnet"
)

const (
	// batchSize is the number of frames for one system call. More do not help: the other end
	// queues about as many.
	batchSize = 32
	// patience is how long a sender waits for an end that does not read. It is longer than a busy
	// host keeps a virtual machine from its CPU, and short enough that nobody hangs.
	patience = 10 * time.Millisecond
	// retryAfter is how long macOS is left alone after ENOBUFS: its poll reports a socket as
	// writable although the other end has no room.
	retryAfter = 50 * time.Microsecond
	// pauseAfterError keeps a socket that fails again and again from using a CPU.
	pauseAfterError = time.Millisecond
)

// Options configure an endpoint. The other end has the Peer's address.
type Options struct {
	Local, Peer net.HardwareAddr
	// Source reports whether the other end may send from an address. Nil allows all.
	Source func(netip.Addr) bool
}

// Gateway returns options for the gateway's end of the guest's NIC.
func Gateway(source func(netip.Addr) bool) Options {
	return Options{Local: mac(subnet.GatewayMAC), Peer: mac(subnet.GuestMAC), Source: source}
}

// Guest returns options for the guest's end. Tests use it.
func Guest() Options { return Options{Local: mac(subnet.GuestMAC), Peer: mac(subnet.GatewayMAC)} }

func mac(text string) net.HardwareAddr {
	a, err := net.ParseMAC(text)
	if err != nil {
		panic(err) // a constant of subnet
	}
	return a
}

// Counters count frames.
type Counters struct {
	In, Out uint64 // carried
	Alien   uint64 // received, but not for this link: runts, other MACs, other protocols
	Spoofed uint64 // received from an address that Source refused
	Dropped uint64 // not sent: the other end does not read
}

// Endpoint implements stack.LinkEndpoint. It is point to point: nothing is resolved, and only IPv4
// passes. It uses the embedded endpoint's dispatcher and properties, not its queue.
type Endpoint struct {
	*channel.Endpoint
	file     *os.File
	raw      syscall.RawConn
	peer     tcpip.LinkAddress
	source   func(netip.Addr) bool
	receiver receiver
	senders  sync.Pool // of *sender
	acks     acks
	stuck    atomic.Bool
	start    sync.Once     // begins to read
	done     chan struct{} // it has ended

	in, out, alien, spoofed, dropped atomic.Uint64
}

// New returns an endpoint on a file from Pair, which it takes over.
func New(file *os.File, o Options) (*Endpoint, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	e := &Endpoint{
		Endpoint: channel.New(0, subnet.MTU, tcpip.LinkAddress(o.Local)),
		file:     file, raw: raw, source: o.Source, peer: tcpip.LinkAddress(o.Peer), done: make(chan struct{}),
	}
	// A socket does not damage checksums. The stack cuts its segments last, which is cheaper.
	e.LinkEPCapabilities, e.SupportedGSOKind = stack.CapabilityRXChecksumOffload, stack.GVisorGSOSupported
	e.receiver.init()
	e.senders.New = func() any { return new(sender) }
	e.acks = acks{held: map[flow]*stack.PacketBuffer{}, send: func(pkts []*stack.PacketBuffer) { _, _ = e.write(pkts) }}
	return e, nil
}

// Counters returns the counters.
func (e *Endpoint) Counters() Counters {
	return Counters{e.in.Load(), e.out.Load(), e.alien.Load(), e.spoofed.Load(), e.dropped.Load()}
}

// MaxHeaderLength implements stack.LinkEndpoint.
func (e *Endpoint) MaxHeaderLength() uint16 { return header.EthernetMinimumSize }

// GSOMaxSize implements stack.GSOEndpoint.
func (e *Endpoint) GSOMaxSize() uint32 { return stack.GVisorGSOMaxSize }

// Close ends the endpoint.
func (e *Endpoint) Close() { _ = e.file.Close() }

// Wait returns when the reading goroutine has ended.
func (e *Endpoint) Wait() {
	e.start.Do(func() { close(e.done) }) // it never began
	<-e.done
}

// Attach starts to read.
func (e *Endpoint) Attach(d stack.NetworkDispatcher) {
	e.Endpoint.Attach(d)
	if d != nil {
		e.start.Do(func() { go e.read() })
	}
}

// AddHeader implements stack.LinkEndpoint.
func (e *Endpoint) AddHeader(pkt *stack.PacketBuffer) {
	header.Ethernet(pkt.LinkHeader().Push(header.EthernetMinimumSize)).Encode(&header.EthernetFields{
		SrcAddr: e.LinkAddress(), DstAddr: e.peer, Type: pkt.NetworkProtocolNumber,
	})
}

// WritePackets sends packets of one flow.
func (e *Endpoint) WritePackets(list stack.PacketBufferList) (int, tcpip.Error) {
	pkts := list.AsSlice()
	if len(pkts) > 0 && e.acks.hold(pkts[0], len(pkts) == 1) {
		return 1, nil
	}
	return e.write(pkts)
}

// write sends frames, and drops those for which the other end makes no room. Nobody waits twice for
// an end that does not read.
func (e *Endpoint) write(pkts []*stack.PacketBuffer) (sent int, _ tcpip.Error) {
	s := e.senders.Get().(*sender)
	defer e.senders.Put(s)
	var deadline time.Time
	for sent < len(pkts) {
		n, err := 0, error(nil)
		if closed := e.raw.Control(func(fd uintptr) { n, err = s.send(int(fd), pkts[sent:]) }); closed != nil {
			return sent, &tcpip.ErrClosedForSend{}
		}
		if n > 0 {
			sent += n
			e.stuck.Store(false)
			continue
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		full := errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS)
		if now := time.Now(); deadline.IsZero() {
			deadline = now.Add(patience)
		} else if !now.Before(deadline) {
			e.stuck.Store(true)
		}
		if !full || e.stuck.Load() {
			e.dropped.Add(uint64(len(pkts) - sent))
			break
		}
		e.waitWritable(errors.Is(err, unix.ENOBUFS))
	}
	e.out.Add(uint64(sent))
	return sent, nil
}

func (e *Endpoint) waitWritable(pollLies bool) {
	if pollLies {
		time.Sleep(retryAfter)
		return
	}
	_ = e.raw.Control(func(fd uintptr) {
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(patience/time.Millisecond))
	})
}

// read delivers frames until the endpoint is closed. Nothing that the other end sends ends it.
func (e *Endpoint) read() {
	defer close(e.done)
	for {
		n, err := 0, error(nil)
		closed := e.raw.Read(func(fd uintptr) bool {
			n, err = e.receiver.receive(int(fd))
			return !errors.Is(err, unix.EAGAIN)
		})
		if closed != nil {
			return
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			time.Sleep(pauseAfterError)
			continue
		}
		for i := range n {
			e.deliver(e.receiver.frame(i))
		}
	}
}

// deliver gives one frame to the stack if this link carries it.
func (e *Endpoint) deliver(frame []byte) {
	const ethernet = header.EthernetMinimumSize
	if len(frame) < ethernet+header.IPv4MinimumSize || header.Ethernet(frame).Type() != header.IPv4ProtocolNumber ||
		header.Ethernet(frame).DestinationAddress() != e.LinkAddress() || header.Ethernet(frame).SourceAddress() != e.peer {
		e.alien.Add(1)
		return
	}
	source := netip.AddrFrom4([4]byte(frame[ethernet+12 : ethernet+16]))
	if e.source != nil && !e.source(source) {
		e.spoofed.Add(1)
		return
	}
	e.in.Add(1)
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(frame[ethernet:])})
	pkt.NetworkProtocolNumber = header.IPv4ProtocolNumber
	e.InjectInbound(header.IPv4ProtocolNumber, pkt)
	pkt.DecRef()
}
