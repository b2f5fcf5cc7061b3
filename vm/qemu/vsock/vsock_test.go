//go:build linux

package vsock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	afvsock "github.com/mdlayher/vsock"

	"osaurus-sandbox/internal/timetest"
)

// many is the number of connections in each direction.
const many = 2000

func dial(t testing.TB, d *Device) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timetest.Limit)
	defer cancel()
	c, err := d.Dial(ctx, echoPort)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func listen(t testing.TB, d *Device) net.Listener {
	t.Helper()
	l, err := d.Listen(hostPort)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDial(t *testing.T) {
	d := New(guestCID)
	startGuest(t, d)
	_, err := d.Dial(context.Background(), 9)
	wantErrno(t, "dial of a closed port", err, syscall.ECONNREFUSED)
	if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" || op.Net != "vsock" {
		t.Errorf("not an OpError of a dial: %#v", err)
	}
	c := dial(t, d)
	if a, ok := c.RemoteAddr().(*afvsock.Addr); !ok || *a != (afvsock.Addr{ContextID: guestCID, Port: echoPort}) {
		t.Errorf("remote address %v", c.RemoteAddr())
	}
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	go func() {
		if _, err := c.Write(data); err != nil {
			t.Error(err)
		}
	}()
	got := make([]byte, len(data))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("the echo is wrong: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	_, err = c.Read(got)
	wantErrno(t, "read after close", err, net.ErrClosed)
	_, err = c.Write(got)
	wantErrno(t, "write after close", err, net.ErrClosed)
	atRest(t, d)
}

// TestDialBeforeBoot dials before the guest's boot, and connects again after its reboot.
func TestDialBeforeBoot(t *testing.T) {
	d := New(guestCID)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := d.Dial(ctx, echoPort)
	wantErrno(t, "dial without a guest", err, context.DeadlineExceeded)
	dialled := make(chan net.Conn)
	go func() { dialled <- dial(t, d) }()
	timetest.Eventually(t, "a waiting dial", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return len(d.conns) == 1 })
	g := startGuest(t, d)
	c := <-dialled
	go g.reboot()
	_, err = c.Read(make([]byte, 1))
	wantErrno(t, "read across a reboot", err, errReset)
	c.Close()
	dial(t, d).Close()
	atRest(t, d)
}

// TestMany opens thousands of connections from each side.
func TestMany(t *testing.T) {
	d := New(guestCID)
	g := startGuest(t, d)
	l := listen(t, d)
	defer l.Close()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		open = append(open, c)
	}
	for i := range many {
		wg.Go(func() { // host to guest
			c := dial(t, d)
			keep(c)
			msg := fmt.Sprintf("message %d", i)
			got := make([]byte, len(msg))
			_, _ = io.WriteString(c, msg)
			if _, err := io.ReadFull(c, got); err != nil || string(got) != msg {
				t.Errorf("connection %d: %q, %v", i, got, err)
			}
		})
		wg.Go(func() { // guest to host
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			keep(c)
			_, _ = fmt.Fprintf(c, "for port %d", c.RemoteAddr().(*afvsock.Addr).Port)
		})
	}
	made := map[uint32]*guestConn{}
	for i := range uint32(many) {
		made[10000+i] = g.connect(10000 + i)
	}
	wg.Wait()
	for port, c := range made {
		want := fmt.Sprintf("for port %d", port)
		timetest.Eventually(t, want, func() (ok bool) { g.do(func() { ok = string(c.got) == want }); return ok })
	}
	if len(open) != 2*many {
		t.Fatalf("%d connections are open", len(open))
	}
	for _, c := range open {
		if c := c.(*Conn); c.in.ring != nil {
			t.Fatal("a connection at rest has a buffer")
		}
		c.Close()
	}
	atRest(t, d)
}

// TestLimits connects from the guest until the backlog is full, then until there are too many
// connections.
func TestLimits(t *testing.T) {
	d := New(guestCID)
	g := startGuest(t, d)
	refused := 0
	g.do(func() {
		g.seen = func(h *header, _ []byte) bool {
			if h.op == opRST {
				refused++
			}
			return false
		}
	})
	wantRefused := func(n int) {
		t.Helper()
		timetest.Eventually(t, fmt.Sprintf("%d refused", n), func() (ok bool) { g.do(func() { ok = refused == n }); return ok })
	}
	port := uint32(1)
	connect := func(n int) {
		for range n {
			g.connect(port)
			port++
		}
	}
	connect(1)
	wantRefused(1) // nobody listens
	l := listen(t, d)
	connect(backlog + 5)
	wantRefused(1 + 5)
	var open []net.Conn
	accept := func(n int) {
		t.Helper()
		for range n {
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
		}
	}
	accept(backlog)
	for len(open) < maxConns {
		connect(backlog)
		accept(backlog)
	}
	connect(7)
	wantRefused(1 + 5 + 7)
	dial(t, d).Close() // the host has its own limit
	open[0].Close()
	timetest.Eventually(t, "room", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return len(d.placed[fromGuest]) < maxConns })
	connect(1)
	accept(1)
	for _, c := range open[1:] {
		c.Close()
	}
	l.Close()
	_, err := l.Accept()
	wantErrno(t, "accept after close", err, net.ErrClosed)
	atRest(t, d)
}

// TestGuestReadsNothing opens and ends connections from a guest that reads no packets.
func TestGuestReadsNothing(t *testing.T) {
	const rounds = 50
	for name, end := range map[string]func(*fakeGuest, key){
		"it resets":        func(g *fakeGuest, k key) { g.send(k, opRST, 0, nil) },
		"the host resets":  func(g *fakeGuest, k key) { g.send(k, opShutdown, shutBoth, nil) },
		"the host gave up": nil,
	} {
		t.Run(name, func(t *testing.T) {
			d := New(guestCID)
			g := startGuest(t, d)
			g.do(func() { g.deaf = true })
			g.reboot()
			l := listen(t, d)
			defer l.Close()
			var first net.Conn // stays at the head of the queue
			for port := range uint32(1 + rounds) {
				g.connect(port)
				c, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case port == 0:
					first = c
				case end == nil:
					c.(*Conn).abort()
				default:
					g.do(func() { end(g, key{hostPort, port}) })
					_, _ = c.Read(make([]byte, 1))
					c.Close()
				}
			}
			d.mu.Lock()
			queued, placed := d.ready.Len(), len(d.placed[fromGuest])
			d.mu.Unlock()
			if queued > placed {
				t.Errorf("%d connections are kept for the guest, of which %d have a place", queued, placed)
			}
			d.Reset()
			first.Close()
			atRest(t, d)
		})
	}
}

// TestPortReuse connects from a port whose last connection the host has closed and the guest has not
// confirmed.
func TestPortReuse(t *testing.T) {
	d := New(guestCID)
	g := startGuest(t, d)
	l := listen(t, d)
	defer l.Close()
	g.do(func() { g.seen = func(h *header, _ []byte) bool { return h.op == opShutdown } })
	for i := range 3 {
		g.connect(1)
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if i < 2 {
			c.Close()
		} else {
			defer c.Close() // not yet: ten seconds later it would be forgotten
		}
	}
	d.mu.Lock()
	if len(d.placed[fromGuest]) != 1 {
		t.Errorf("%d connections, want the last one only", len(d.placed[fromGuest]))
	}
	d.mu.Unlock()
}

// TestOverrun sends more data than the guest has credit for.
func TestOverrun(t *testing.T) {
	d := New(guestCID)
	g := startGuest(t, d)
	l := listen(t, d)
	defer l.Close()
	gc := g.connect(1)
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	g.do(func() {
		for range firstWindow/4096 + 1 {
			g.send(key{hostPort, 1}, opRW, 0, make([]byte, 4096))
		}
	})
	select {
	case <-gc.done:
	case <-time.After(30 * time.Second):
		t.Fatal("the guest was not reset")
	}
	// Only data within the credit is kept.
	n, err := io.Copy(io.Discard, c)
	wantErrno(t, "the end of the data", err, errReset)
	if n != firstWindow {
		t.Errorf("%d bytes were kept", n)
	}
}

// TestStuckGuest writes to a guest that does not read.
func TestStuckGuest(t *testing.T) {
	d := New(guestCID)
	g := startGuest(t, d)
	came := 0
	g.do(func() {
		g.seen = func(h *header, data []byte) bool {
			came += len(data)
			return h.op == opRW || h.op == opCreditRequest
		}
	})
	c := dial(t, d)
	written := make(chan struct{})
	go func() {
		defer close(written)
		n, err := c.Write(make([]byte, 2*guestBuffer))
		wantErrno(t, "write", err, errTimeout)
		if n != guestBuffer {
			t.Errorf("%d bytes were sent to a buffer of %d", n, guestBuffer)
		}
	}()
	timetest.Eventually(t, "a full buffer", func() (full bool) { g.do(func() { full = came >= guestBuffer }); return full })
	_ = c.SetWriteDeadline(time.Now())
	<-written
	_ = c.SetWriteDeadline(time.Time{})
	go func() { time.Sleep(20 * time.Millisecond); c.Close() }()
	_, err := c.Write([]byte("x"))
	wantErrno(t, "write during close", err, net.ErrClosed)
	atRest(t, d)
}

// TestHalfClose ends one direction, then the other.
func TestHalfClose(t *testing.T) {
	d := New(guestCID)
	g := startGuest(t, d)
	l := listen(t, d)
	defer l.Close()
	g.connect(1)
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	k := key{hostPort, 1}
	g.do(func() {
		g.send(k, opRW, 0, []byte("all"))
		g.send(k, opShutdown, shutSend, nil)
	})
	if b, err := io.ReadAll(c); err != nil || string(b) != "all" {
		t.Errorf("read %q, %v", b, err)
	}
	if _, err := c.Write([]byte("answer")); err != nil {
		t.Error(err)
	}
	if err := c.(*Conn).CloseWrite(); err != nil {
		t.Error(err)
	}
	_, err = c.Write([]byte("more"))
	wantErrno(t, "write after CloseWrite", err, syscall.EPIPE)
}

// TestClose ends a device with everything in use.
func TestClose(t *testing.T) {
	d := New(guestCID)
	l := listen(t, d)
	_, err := d.Listen(hostPort)
	wantErrno(t, "listen twice", err, syscall.EADDRINUSE)
	errs := make(chan error, 3)
	go func() { _, err := l.Accept(); errs <- err }()
	go func() { _, err := d.Dial(context.Background(), echoPort); errs <- err }()
	timetest.Eventually(t, "a waiting dial", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return len(d.conns) == 1 })
	d.Close()
	for range 2 {
		wantErrno(t, "accept and dial at the end", <-errs, net.ErrClosed)
	}
	_, err = d.Dial(context.Background(), echoPort)
	wantErrno(t, "dial after the end", err, net.ErrClosed)
	_, err = d.Listen(hostPort)
	wantErrno(t, "listen after the end", err, net.ErrClosed)
	atRest(t, d)
}

func TestWindowsBounded(t *testing.T) {
	d := New(guestCID)
	n := 0
	for d.grow(lastWindow - firstWindow) {
		n++
	}
	if total := n * (lastWindow - firstWindow); total > maxGrown || total < maxGrown-lastWindow {
		t.Errorf("windows grew by %d bytes, the limit is %d", total, maxGrown)
	}
	// A window is given back even while another connection asks for more.
	c := newConn(d, fromGuest, key{hostPort, 1})
	c.window = lastWindow
	before := d.grown.Add(maxGrown)
	c.mu.Lock()
	c.failLocked(net.ErrClosed)
	c.unlock()
	if got := before - d.grown.Load(); got != lastWindow-firstWindow {
		t.Errorf("%d bytes were given back", got)
	}
}
