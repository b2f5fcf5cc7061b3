//go:build linux

package vsock

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm/qemu/vhostuser"
	"osaurus-sandbox/vm/qemu/vhostuser/vhosttest"
)

const (
	guestCID = 3
	echoPort = 7 // where the fake guest listens
	hostPort = 5000

	ringSize = 128
	slotSize = 8 << 10 // of each buffer
	rxData   = 64 << 10
	txData   = rxData + ringSize*slotSize
	memSize  = txData + ringSize*slotSize

	guestBuffer = 32 << 10 // per connection
)

// fakeGuest is a driver and a network stack that echoes data.
type fakeGuest struct {
	t      testing.TB
	m      *vhosttest.Machine
	rx, tx *vhosttest.Queue
	served chan error
	done   chan struct{}

	// seen is called with each packet first. If it returns true, the stack does not get the packet.
	// Guarded by mu.
	seen func(h *header, data []byte) bool

	mu    sync.Mutex
	conns map[key]*guestConn
	free  []uint16 // slots of the tx ring
	deaf  bool     // boots without receive buffers
}

type guestConn struct {
	got           []byte // data of a connection that the guest made
	out           []byte // data to echo
	fwdCnt, txCnt uint32
	alloc, fwd    uint32        // the host's
	done          chan struct{} // closed when it is reset
}

// startGuest connects a guest to the device.
func startGuest(t testing.TB, d *Device) *fakeGuest {
	t.Helper()
	g := &fakeGuest{t: t, m: vhosttest.New(t, memSize), served: make(chan error, 1), done: make(chan struct{}), conns: map[key]*guestConn{}}
	ctx, hangUp := context.WithCancel(context.Background())
	go func() { g.served <- vhostuser.Serve(ctx, g.m.Back, d, slog.New(slog.DiscardHandler)) }()
	g.m.Negotiate(0)
	g.m.Share()
	g.rx, g.tx = g.m.NewQueue(rxQueue, ringSize, 0), g.m.NewQueue(txQueue, ringSize, vhosttest.RingBytes)
	stopped := make(chan struct{})
	g.boot()
	go func() {
		defer close(stopped)
		g.run()
	}()
	t.Cleanup(func() {
		close(g.done)
		<-stopped
		hangUp()
		select {
		case err := <-g.served:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(timetest.Limit):
			t.Error("the device is served for ever")
		}
	})
	return g
}

// boot does what a driver does when it starts.
func (g *fakeGuest) boot() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rx.Clear()
	g.tx.Clear()
	g.conns = map[key]*guestConn{}
	g.free = nil
	var all []uint16
	for i := range ringSize {
		g.rx.Describe(i, vhosttest.Base+uint64(rxData+i*slotSize), headerLen+4096, vhosttest.Write, 0)
		all = append(all, uint16(i))
		g.free = append(g.free, uint16(i))
	}
	vhosttest.Start(g.rx, g.tx)
	if !g.deaf {
		g.rx.Publish(all...)
	}
}

func (g *fakeGuest) reboot() {
	g.rx.Stop()
	g.tx.Stop()
	g.boot()
}

// run receives until the test ends.
func (g *fakeGuest) run() {
	for {
		select {
		case <-g.done:
			return
		default:
		}
		if !vhosttest.Signalled(g.rx.Call, 20*time.Millisecond) {
			continue
		}
		for g.receive() {
		}
	}
}

func (g *fakeGuest) receive() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	slot, n, ok := g.rx.Take()
	if !ok {
		return false
	}
	b := g.m.Mem[rxData+int(slot)*slotSize:][:n]
	var h header
	copy(h.bytes(), b)
	data := append([]byte(nil), b[headerLen:]...)
	g.rx.Publish(slot)
	if int(h.len) != len(data) {
		g.t.Errorf("packet says %d bytes and has %d", h.len, len(data))
	}
	if g.seen == nil || !g.seen(&h, data) {
		g.stack(&h, data)
	}
	return true
}

// stack answers a packet. The caller holds g.mu.
func (g *fakeGuest) stack(h *header, data []byte) {
	k := key{h.srcPort, h.dstPort}
	c := g.conns[k]
	if h.op == opRequest && h.dstPort == echoPort {
		c = &guestConn{done: make(chan struct{})}
		g.conns[k] = c
		g.send(k, opResponse, 0, nil)
	}
	if c != nil {
		c.alloc, c.fwd = h.bufAlloc, h.fwdCnt
		defer g.echo(k, c)
	}
	switch {
	case h.op == opRST:
		if c != nil {
			close(c.done)
			delete(g.conns, k)
		}
	case c == nil:
		g.send(k, opRST, 0, nil)
	case h.op == opRW && k.guest == echoPort:
		c.out = append(c.out, data...)
	case h.op == opRW:
		c.fwdCnt += h.len
		c.got = append(c.got, data...)
		g.send(k, opCreditUpdate, 0, nil)
	case h.op == opCreditRequest:
		g.send(k, opCreditUpdate, 0, nil)
	case h.op == opShutdown && h.flags == shutBoth:
		close(c.done)
		delete(g.conns, k)
		g.send(k, opRST, 0, nil)
	}
}

// echo sends back as much as the host's credit and, as in Linux, its own buffer allow. The caller holds g.mu.
func (g *fakeGuest) echo(k key, c *guestConn) {
	for len(c.out) > 0 && g.conns[k] == c {
		n := min(len(c.out), int(min(c.alloc, guestBuffer)-(c.txCnt-c.fwd)), 4096)
		if n <= 0 {
			return
		}
		c.txCnt += uint32(n)
		c.fwdCnt += uint32(n)
		g.send(k, opRW, 0, c.out[:n])
		c.out = c.out[n:]
	}
}

// send sends a packet. The caller holds g.mu.
func (g *fakeGuest) send(k key, op uint16, flags uint32, data []byte) {
	h := header{srcCID: guestCID, dstCID: hostCID, srcPort: k.guest, dstPort: k.host, typ: typeStream, op: op, flags: flags,
		len: uint32(len(data)), bufAlloc: guestBuffer}
	if c := g.conns[k]; c != nil {
		h.fwdCnt = c.fwdCnt
	}
	b := h.bytes()
	g.sendRaw(append(b, data...))
}

func (g *fakeGuest) sendRaw(b []byte) {
	for len(g.free) == 0 {
		slot, _ := g.tx.MustTake()
		g.free = append(g.free, slot)
	}
	slot := g.free[0]
	g.free = g.free[1:]
	off := txData + int(slot)*slotSize
	n := copy(g.m.Mem[off:off+slotSize], b)
	g.tx.Describe(int(slot), vhosttest.Base+uint64(off), uint32(n), 0, 0)
	g.tx.Publish(slot)
}

// do runs f with the guest's lock held.
func (g *fakeGuest) do(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// connect asks for a connection to the host.
func (g *fakeGuest) connect(port uint32) *guestConn {
	c := &guestConn{done: make(chan struct{})}
	k := key{hostPort, port}
	g.do(func() {
		g.conns[k] = c
		g.send(k, opRequest, 0, nil)
	})
	return c
}

// atRest checks that a device has no connections left.
func atRest(t testing.TB, d *Device) {
	t.Helper()
	timetest.Eventually(t, "all connections forgotten", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.conns)+len(d.placed[fromHost])+len(d.placed[fromGuest]) == 0 && d.grown.Load() == 0
	})
}

func wantErrno(t testing.TB, what string, err error, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

var errTimeout, errReset = os.ErrDeadlineExceeded, syscall.ECONNRESET
