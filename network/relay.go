package network

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"osaurus-sandbox/network/hello"
)

// guestEnd is what the guest's ends of TCP and UDP flows have in common.
type guestEnd struct {
	endpoint tcpip.Endpoint
	queue    *waiter.Queue
}

// guestConn is the guest's end of a connection.
type guestConn struct {
	*gonet.TCPConn
	guestEnd
}

// abort resets the connection.
func (c *guestConn) abort() { c.endpoint.Abort() }

// waitReadable returns when there is something to read. The caller needs no buffer until then.
func (e *guestEnd) waitReadable() {
	const events = waiter.ReadableEvents | waiter.EventHUp | waiter.EventErr
	if e.endpoint.Readiness(events) != 0 {
		return
	}
	entry, ready := waiter.NewChannelEntry(events)
	e.queue.EventRegister(&entry)
	defer e.queue.EventUnregister(&entry)
	if e.endpoint.Readiness(events) == 0 {
		<-ready
	}
}

// drain waits until the guest has acknowledged everything, so that a flow counts until its memory
// is free.
func (c *guestConn) drain(ctx context.Context) {
	limit := time.Now().Add(drainTimeout)
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		switch state := tcp.EndpointState(c.endpoint.State()); state {
		case tcp.StateFinWait1, tcp.StateClosing, tcp.StateLastAck, tcp.StateEstablished, tcp.StateCloseWait:
		default:
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			if time.Now().Before(limit) {
				continue
			}
		}
		c.abort()
		return
	}
}

// hostConn is the outside's end of a flow.
type hostConn struct {
	net.Conn
	raw syscall.RawConn // nil if it is no socket
}

func newHostConn(c net.Conn) *hostConn {
	h := &hostConn{Conn: c}
	if s, ok := c.(syscall.Conn); ok {
		h.raw, _ = s.SyscallConn()
	}
	return h
}

// abort resets the connection.
func (c *hostConn) abort() {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Conn.Close()
}

func (c *hostConn) CloseWrite() error { return hello.CloseWrite(c.Conn) }

func (c *hostConn) waitReadable() {
	if c.raw == nil {
		return
	}
	_ = c.raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil
	})
}

// end is one end of a relay.
type end interface {
	net.Conn
	CloseWrite() error
	abort()
	waitReadable()
}

// buffers are shared by all relays.
type buffers struct{ pool sync.Pool }

func newBuffers(size int) *buffers {
	return &buffers{sync.Pool{New: func() any { b := make([]byte, size); return &b }}}
}

func (b *buffers) get() *[]byte  { return b.pool.Get().(*[]byte) }
func (b *buffers) put(p *[]byte) { b.pool.Put(p) }

// direction is one direction of a relay that runs.
type direction struct {
	interrupted atomic.Bool
	done        chan struct{}
	err         error // once it is done
}

// start copies in one direction.
func (f *flow) start(dst, src end, count *atomic.Int64) *direction {
	d := &direction{done: make(chan struct{})}
	go func() {
		defer close(d.done)
		d.err = f.copy(d, dst, src, count)
	}()
	return d
}

// interrupt stops a direction, and leaves both ends open.
func (d *direction) interrupt(src end) {
	if d == nil {
		return
	}
	d.interrupted.Store(true)
	_ = src.SetReadDeadline(time.Unix(1, 0))
	<-d.done
	_ = src.SetReadDeadline(time.Time{})
}

// finish sends the client's first bytes, copies what follows until its end, and waits for the way back.
func (f *flow) finish(guest, host end, first []byte, back *direction) error {
	_, err := host.Write(first)
	f.count(&f.sent, len(first))
	if err == nil {
		err = f.copy(&direction{}, host, guest, &f.sent)
	} else {
		f.cancel(err)
	}
	if <-back.done; err == nil {
		err = back.err
	}
	return err
}

// copy copies until the end of src, and counts. It holds a buffer only while there is something in it.
func (f *flow) copy(d *direction, dst, src end, count *atomic.Int64) error {
	buffers := f.gateway.buffers
	for {
		src.waitReadable()
		buf := buffers.get()
		err := f.copySome(dst, src, count, *buf)
		buffers.put(buf)
		switch {
		case d.interrupted.Load():
			return nil
		case err == nil:
		case errors.Is(err, io.EOF):
			f.timeout.Store(int64(halfClosedTimeout))
			_ = dst.CloseWrite()
			return nil
		default:
			f.cancel(err) // resets both ends
			return err
		}
	}
}

// copySome copies as long as there is as much as the buffer holds.
func (f *flow) copySome(dst, src end, count *atomic.Int64, buf []byte) error {
	for {
		n, err := src.Read(buf)
		if n > 0 {
			f.touch()
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
			f.count(count, n)
		}
		if err != nil || n < len(buf) {
			return err
		}
	}
}
