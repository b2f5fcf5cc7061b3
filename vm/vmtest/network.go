package vmtest

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/internal/timetest"
)

// Offsets in Ethernet frames, and lengths.
const (
	etherType  = 12
	etherLen   = 14
	ipProtocol = etherLen + 9
	ipAddress  = etherLen + 12 // source, then destination
	udpPort    = etherLen + 20
	udpLen     = 28 // with IPv4's header
	arpSender  = etherLen + 8
	arpLen     = etherLen + 28

	maxFrame = 128 << 10
	maxOther = 1024
)

var typeIPv4, typeARP = []byte{8, 0}, []byte{8, 6}

// wire is the other end of a guest's NIC: a gateway that answers ARP and returns datagrams.
type wire struct {
	*net.UnixConn
	reading sync.Mutex // held while a frame is handled

	mu    sync.Mutex
	other [][]byte // the first frames of other kinds
}

// newWire returns a wire and the NIC at its end.
func newWire(t *testing.T) (*wire, *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.CloseOnExec(fds[0])
	unix.CloseOnExec(fds[1])
	nic, f := os.NewFile(uintptr(fds[0]), "nic"), os.NewFile(uintptr(fds[1]), "wire")
	t.Cleanup(func() { nic.Close() })
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{UnixConn: c.(*net.UnixConn)}
	var serving sync.WaitGroup
	serving.Go(w.serve)
	t.Cleanup(func() { w.Close(); serving.Wait() })
	return w, nic
}

func (w *wire) serve() {
	b := make([]byte, maxFrame)
	for {
		n, err := w.Read(b)
		if err != nil {
			return // closed
		}
		w.reading.Lock()
		if answer := w.answer(slices.Clone(b[:n])); answer != nil {
			_, _ = w.Write(answer) // may be lost, like any frame
		}
		w.reading.Unlock()
	}
}

// answer returns the answer to a frame, or nil.
func (w *wire) answer(f []byte) []byte {
	gateway, _ := net.ParseMAC(subnet.GatewayMAC)
	swap := func(at, size int) { copy(f[at:], slices.Concat(f[at+size:at+2*size], f[at:at+size])) }
	switch {
	case len(f) >= arpLen && bytes.Equal(f[etherType:etherLen], typeARP):
		swap(arpSender, 10) // MAC and IP addresses
		copy(f[arpSender:], gateway)
		f[etherLen+7] = 2 // reply
		copy(f, f[6:12])
		copy(f[6:], gateway)
		return f
	case len(f) >= etherLen+udpLen && bytes.Equal(f[etherType:etherLen], typeIPv4) && f[ipProtocol] == unix.IPPROTO_UDP:
		swap(0, 6)
		swap(ipAddress, 4)
		swap(udpPort, 2)
		return f // with the same checksums
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.other) < maxOther {
		w.other = append(w.other, f)
	}
	return nil
}

// saw reports whether a frame has arrived that starts with f.
func (w *wire) saw(f []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.other, func(o []byte) bool { return bytes.HasPrefix(o, f) })
}

// testNetwork exchanges frames with the guest.
func testNetwork(t *testing.T, g *Guest, w *wire) {
	if got := g.Must("read", "/sys/class/net/eth0/address"); strings.TrimSpace(got) != subnet.GuestMAC {
		t.Errorf("the guest's address is %s", got)
	}
	works := func(after string) {
		t.Helper()
		for _, size := range []int{1, subnet.MTU - udpLen} {
			text := strings.Repeat("x", size)
			if got, err := g.Call("ask", net.JoinHostPort(subnet.Gateway().String(), "7"), text); got != text || err != nil {
				t.Fatalf("after %s, of a datagram of %d bytes %d come back: %v", after, size, len(got), err)
			}
		}
	}
	works("the boot")

	// N13: foreign addresses, VLAN tags and unknown types reach the other end as they are.
	for what, head := range map[string]string{
		"from another MAC":         "52540052000252540052000388b5",
		"to all":                   "ffffffffffff52540052000388b5",
		"from a group":             "5254005200020180c200000088b5",
		"with a VLAN tag":          "5254006f73625254006f7361810000050800",
		"with two VLAN tags":       "5254006f73625254006f736188a80005810000060800",
		"with a length for a type": "5254006f73625254006f73610003",
	} {
		g.Must("send", 1, head+hex.EncodeToString([]byte(what)))
		frame, err := hex.DecodeString(head)
		if err != nil {
			t.Fatal(err)
		}
		timetest.Eventually(t, "a frame "+what+" arrives as it was sent", func() bool { return w.saw(append(frame, what...)) })
	}

	for _, size := range []int{1, etherLen - 1, etherLen, subnet.MTU + etherLen + 1, 64 << 10, maxFrame} {
		frame := append([]byte{0x52, 0x54, 0, 0x6f, 0x73, 0x61}, make([]byte, size)...)[:size]
		for range 300 {
			if err := w.SetWriteDeadline(time.Now().Add(soon)); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(frame); err != nil {
				t.Fatalf("write %d bytes: %v", size, err)
			}
		}
		works(fmt.Sprintf("frames of %d bytes", size))
	}

	const counter = "/sys/class/net/eth0/statistics/tx_packets"
	idle := g.Must("read", counter)
	w.reading.Lock()
	release := sync.OnceFunc(w.reading.Unlock)
	defer release()
	flood := make(chan error, 1)
	go func() {
		_, err := g.Call("send", 20_000, "5254006f73625254006f736188b5"+strings.Repeat("00", subnet.MTU))
		flood <- err
	}()
	sent := idle
	timetest.Eventually(t, "the socket is full", func() bool {
		before := sent
		sent = g.Must("read", counter)
		return sent != idle && sent == before
	})
	echo(t, g, "while the socket is full")
	release()
	if err := <-flood; err != nil {
		t.Errorf("send a flood: %v", err)
	}
	works("a full socket")
}
