package link

import (
	"bytes"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"osaurus-sandbox/internal/subnet"
)

const testPatience = time.Minute

// recorder is a dispatcher that keeps packets.
type recorder struct {
	stack.NetworkDispatcher
	packets chan []byte
}

func (r *recorder) DeliverNetworkPacket(_ tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) {
	r.packets <- slices.Clone(pkt.Data().AsRange().ToSlice())
}

var allowedSource = netip.MustParseAddr("198.18.128.2")

func open(t testing.TB) (*Endpoint, *os.File, *recorder) {
	t.Helper()
	near, far, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(near, Gateway(func(a netip.Addr) bool { return a == allowedSource }))
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{packets: make(chan []byte, 1024)}
	e.Attach(r)
	t.Cleanup(func() {
		e.Close()
		e.Wait()
		far.Close()
	})
	return e, far, r
}

// frame returns a frame from the guest with an IPv4 header and a payload.
func frame(source netip.Addr, payload string) []byte {
	f := make([]byte, header.EthernetMinimumSize+header.IPv4MinimumSize, 2000)
	header.Ethernet(f).Encode(&header.EthernetFields{
		SrcAddr: tcpip.LinkAddress(mac(subnet.GuestMAC)), DstAddr: tcpip.LinkAddress(mac(subnet.GatewayMAC)), Type: header.IPv4ProtocolNumber,
	})
	header.IPv4(f[header.EthernetMinimumSize:]).Encode(&header.IPv4Fields{
		TotalLength: uint16(header.IPv4MinimumSize + len(payload)), TTL: 64, Protocol: 17,
		SrcAddr: tcpip.AddrFrom4(source.As4()), DstAddr: tcpip.AddrFrom4([4]byte{203, 0, 113, 5}),
	})
	return append(f, payload...)
}

func changed(f []byte, at int, value byte) []byte {
	f = slices.Clone(f)
	f[at] = value
	return f
}

func TestN13OnlyFramesForTheLinkPass(t *testing.T) {
	e, far, r := open(t)
	good := frame(allowedSource, "hello")
	alien := [][]byte{
		{}, {1}, good[:13], good[:14], good[:33],
		changed(good, 0, 0x02), changed(good, 5, 0xff), // another destination
		bytes.Repeat([]byte{0xff}, 60),                // a broadcast
		changed(good, 11, 0xff),                       // another source
		changed(good, 12, 0x86), changed(good, 13, 6), // IPv6, ARP
		changed(good, 12, 0x81),                                 // a VLAN
		append(slices.Clone(good), make([]byte, subnet.MTU)...), // too long
	}
	for _, f := range alien {
		if _, err := far.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := far.Write(frame(netip.MustParseAddr("198.18.128.3"), "spoofed")); err != nil {
		t.Fatal(err)
	}
	if _, err := far.Write(good); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-r.packets:
		if !bytes.Equal(got, good[header.EthernetMinimumSize:]) {
			t.Errorf("got %x, want %x", got, good[header.EthernetMinimumSize:])
		}
	case <-time.After(testPatience):
		t.Fatal("the good frame did not arrive")
	}
	want := Counters{In: 1, Alien: uint64(len(alien)), Spoofed: 1}
	if got := e.Counters(); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

func packets(n int) stack.PacketBufferList {
	var list stack.PacketBufferList
	for range n {
		pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{
			ReserveHeaderBytes: header.EthernetMinimumSize, Payload: buffer.MakeWithData(frame(allowedSource, "out")[header.EthernetMinimumSize:]),
		})
		pkt.NetworkProtocolNumber = header.IPv4ProtocolNumber
		list.PushBack(pkt)
	}
	return list
}

func TestAllPacketsOfALongListAreSent(t *testing.T) {
	e, far, _ := open(t)
	list := packets(3*batchSize + 1)
	for _, pkt := range list.AsSlice() {
		e.AddHeader(pkt)
	}
	sent := make(chan int)
	go func() {
		n, _ := e.WritePackets(list)
		sent <- n
	}()
	received := uint64(0)
	buf := make([]byte, 2000)
	far.SetReadDeadline(time.Now().Add(testPatience))
	for range 3*batchSize + 1 {
		// A busy computer may make the sender lose its patience.
		if received+e.Counters().Dropped >= 3*batchSize+1 {
			break
		}
		n, err := far.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		h := header.Ethernet(buf[:n])
		if h.DestinationAddress() != tcpip.LinkAddress(mac(subnet.GuestMAC)) || h.SourceAddress() != tcpip.LinkAddress(mac(subnet.GatewayMAC)) {
			t.Fatalf("got a frame from %v to %v", h.SourceAddress(), h.DestinationAddress())
		}
		received++
	}
	n := <-sent
	if c := e.Counters(); c.Out != uint64(n) || received > c.Out || c.Out+c.Dropped != 3*batchSize+1 {
		t.Errorf("received %d, sent %d, counted %+v", received, n, c)
	}
}

func TestNobodyWaitsTwiceForAGuestThatDoesNotRead(t *testing.T) {
	e, far, _ := open(t)
	list := packets(1)
	for e.Counters().Dropped == 0 { // until there is no more room
		if _, err := e.WritePackets(list); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	const more = 10000
	for range more {
		if _, err := e.WritePackets(list); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > more*patience/4 {
		t.Errorf("%d packets for a guest that does not read took %v", more, took)
	}
	if !e.stuck.Load() {
		t.Error("the link does not know that it is stuck")
	}
	buf := make([]byte, 2000)
	if _, err := far.Read(buf); err != nil {
		t.Fatal(err)
	}
	dropped := e.Counters().Dropped
	if _, err := e.WritePackets(list); err != nil || e.Counters().Dropped != dropped || e.stuck.Load() {
		t.Errorf("a packet was dropped though the guest reads again: %v", err)
	}
}

func TestTheOtherEndMayGo(t *testing.T) {
	e, far, _ := open(t)
	far.Close()
	if _, err := e.WritePackets(packets(1)); err != nil {
		t.Errorf("got %v", err)
	}
	if c := e.Counters(); c.Dropped != 1 {
		t.Errorf("counted %+v", c)
	}
}

func FuzzDeliver(f *testing.F) {
	good := frame(allowedSource, "hello")
	f.Add(good)
	f.Add(good[:20])
	f.Add(changed(good, 14, 0x4f))
	f.Add([]byte{})
	e, _, r := open(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		before := e.Counters()
		e.deliver(data)
		after := e.Counters()
		if after.In+after.Alien+after.Spoofed != before.In+before.Alien+before.Spoofed+1 {
			t.Fatalf("counted %+v, then %+v", before, after)
		}
		if after.In > before.In {
			if got := <-r.packets; !bytes.Equal(got, data[header.EthernetMinimumSize:]) || [4]byte(got[12:16]) != allowedSource.As4() {
				t.Fatalf("delivered %x of %x", got, data)
			}
		}
	})
}
