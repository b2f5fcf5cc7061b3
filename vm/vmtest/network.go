package vmtest

import (
	"bytes"
	"encoding/hex"
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

// NewWire returns a NIC for a machine and the other end. The test closes both when it ends.
func NewWire(t testing.TB) (*net.UnixConn, *os.File) {
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
	t.Cleanup(func() { c.Close() })
	return c.(*net.UnixConn), nic
}

// newWire returns a gateway and the NIC at its end.
func newWire(t *testing.T) (*wire, *os.File) {
	t.Helper()
	c, nic := NewWire(t)
	w := &wire{UnixConn: c}
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

// saw reports whether a frame has arrived that starts with f. It may be padded.
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
	testAsk(t, g)
	t.Run("N13", func(t *testing.T) { testAnyFrame(t, g, w) })
	t.Run("BadFrames", func(t *testing.T) { testBadFrames(t, g, w) })
	t.Run("FullSocket", func(t *testing.T) { testFullSocket(t, g, w) })
	t.Run("ClosedSocket", func(t *testing.T) {
		w.Close()
		g.Must("send", 1000, heading+"00")
		echo(t, g, "without a network")
	})
}

// testAsk sends datagrams to the gateway and back.
func testAsk(t *testing.T, g *Guest) {
	t.Helper()
	for _, size := range []int{1, subnet.MTU - udpLen} {
		text := strings.Repeat("x", size)
		if got, err := g.Call("ask", net.JoinHostPort(subnet.Gateway().String(), "7"), text); got != text || err != nil {
			t.Fatalf("of a datagram of %d bytes %d come back: %v", size, len(got), err)
		}
	}
}

// heading begins a frame from the guest to the gateway, in hexadecimal.
const heading = "5254006f73625254006f736188b5"

// testAnyFrame checks that foreign addresses, VLAN tags and other types arrive as they were sent.
func testAnyFrame(t *testing.T, g *Guest, w *wire) {
	for what, head := range map[string]string{
		"of a new type":            heading,
		"from another MAC":         "52540052000252540052000388b5",
		"to all":                   "ffffffffffff52540052000388b5",
		"from a group":             "5254005200020180c200000088b5",
		"with a VLAN tag":          "5254006f73625254006f7361810000050800",
		"with two VLAN tags":       "5254006f73625254006f736188a80005810000060800",
		"with a length for a type": "5254006f73625254006f73610003",
	} {
		text := head + hex.EncodeToString([]byte(what))
		g.Must("send", 1, text)
		frame, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		timetest.Eventually(t, "a frame "+what+" arrives", func() bool { return w.saw(frame) })
	}
}

// testBadFrames sends runts and frames that are too large to the guest.
func testBadFrames(t *testing.T, g *Guest, w *wire) {
	to, err := net.ParseMAC(subnet.GuestMAC)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, etherLen - 1, etherLen, subnet.MTU + etherLen + 1, 64 << 10, maxFrame} {
		frame := append(to, make([]byte, size)...)[:size]
		for range 300 {
			if err := w.SetWriteDeadline(time.Now().Add(soon)); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(frame); err != nil {
				t.Fatalf("write %d bytes: %v", size, err)
			}
		}
		testAsk(t, g)
	}
}

// testFullSocket floods a gateway that does not read.
func testFullSocket(t *testing.T, g *Guest, w *wire) {
	const counter = "/sys/class/net/eth0/statistics/tx_packets"
	idle := g.Must("read", counter)
	w.reading.Lock()
	release := sync.OnceFunc(w.reading.Unlock)
	defer release()
	flood := make(chan error, 1)
	go func() {
		_, err := g.Call("send", 5000, heading+strings.Repeat("00", subnet.MTU))
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
	testAsk(t, g)
}
