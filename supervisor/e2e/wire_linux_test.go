//go:build !vzstandin

package e2e_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/network/link"
	"osaurus-sandbox/vm"
)

// wire is a driver whose machines' NICs have a tap between guest and gateway.
type wire struct {
	vm.Driver
	t *testing.T

	mu     sync.Mutex
	inward *os.File // to the gateway
	frames [][]byte // what left the NIC
}

// New implements vm.Driver.
func (w *wire) New(ctx context.Context, cfg vm.Config) (vm.Machine, error) {
	if cfg.NIC == nil {
		return w.Driver.New(ctx, cfg)
	}
	near, far, err := link.Pair()
	if err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(cfg.NIC.Fd(), unix.F_DUPFD_CLOEXEC, 0) // the caller closes its own
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // Fd has made it blocking
		return nil, err
	}
	gateway := os.NewFile(uintptr(fd), "gateway")
	w.mu.Lock()
	w.inward = gateway
	w.mu.Unlock()
	cfg.NIC = far
	var running sync.WaitGroup
	carry := func(from, to *os.File, see func([]byte)) {
		defer near.Close() // with one end, both are gone
		defer gateway.Close()
		b := make([]byte, 1<<16)
		for {
			n, err := from.Read(b)
			if err != nil {
				return
			}
			see(b[:n])
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
	}
	running.Go(func() { carry(near, gateway, w.see) })
	running.Go(func() { carry(gateway, near, func([]byte) {}) })
	w.t.Cleanup(func() { _, _, _ = near.Close(), gateway.Close(), far.Close(); running.Wait() })
	return w.Driver.New(ctx, cfg)
}

func (w *wire) see(frame []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frames = append(w.frames, slices.Clone(frame))
}

// take returns the frames that left the NIC since the last call.
func (w *wire) take() [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.frames = nil }()
	return w.frames
}

// inject sends a frame to the gateway, as a guest's kernel can.
func (w *wire) inject(frame []byte) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.inward.Write(frame); err != nil {
		w.t.Error(err)
	}
}

// from returns the source of an IPv4 packet on its way from guest to gateway, or false for any other frame.
func from(frame []byte) (netip.Addr, bool) {
	const start = header.EthernetMinimumSize
	if len(frame) < start+header.IPv4MinimumSize {
		return netip.Addr{}, false
	}
	e := header.Ethernet(frame)
	if e.Type() != header.IPv4ProtocolNumber || e.SourceAddress() != mac(subnet.GuestMAC) || e.DestinationAddress() != mac(subnet.GatewayMAC) {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte(frame[start+12 : start+16])), true
}

func mac(text string) tcpip.LinkAddress {
	a, err := net.ParseMAC(text)
	if err != nil {
		panic(err) // a constant of subnet
	}
	return tcpip.LinkAddress(a)
}

// datagram returns a frame with a UDP packet. Change, if not nil, changes its Ethernet header.
func datagram(from netip.Addr, to netip.AddrPort, change func(*header.EthernetFields)) []byte {
	const text = "ping"
	fields := header.EthernetFields{SrcAddr: mac(subnet.GuestMAC), DstAddr: mac(subnet.GatewayMAC), Type: header.IPv4ProtocolNumber}
	if change != nil {
		change(&fields)
	}
	frame := make([]byte, header.EthernetMinimumSize+header.IPv4MinimumSize+header.UDPMinimumSize, 64)
	header.Ethernet(frame).Encode(&fields)
	ip := header.IPv4(frame[header.EthernetMinimumSize:])
	ip.Encode(&header.IPv4Fields{
		TotalLength: header.IPv4MinimumSize + header.UDPMinimumSize + uint16(len(text)), TTL: 64, Protocol: uint8(header.UDPProtocolNumber),
		SrcAddr: tcpip.AddrFrom4(from.As4()), DstAddr: tcpip.AddrFrom4(to.Addr().As4()),
	})
	ip.SetChecksum(^ip.CalculateChecksum())
	header.UDP(ip[header.IPv4MinimumSize:]).Encode(&header.UDPFields{SrcPort: 4000, DstPort: to.Port(), Length: header.UDPMinimumSize + uint16(len(text))}) // without a checksum
	return append(frame, text...)
}
