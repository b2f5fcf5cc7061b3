package vm

import (
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/mdlayher/vsock"
	"golang.org/x/sys/unix"
)

// GuestCID is the vsock address of every guest. All can use the same, since no other process
// can reach their devices.
const GuestCID = 3

// Conn is a guest's connection that a driver gives out as a socket of this host, with
// vsock addresses.
type Conn struct {
	*net.UnixConn
	HostPort, GuestPort uint32
}

// LocalAddr implements net.Conn. It is a *vsock.Addr of mdlayher/vsock.
func (c Conn) LocalAddr() net.Addr { return &vsock.Addr{ContextID: vsock.Host, Port: c.HostPort} }

// RemoteAddr implements net.Conn. It is a *vsock.Addr of mdlayher/vsock.
func (c Conn) RemoteAddr() net.Addr { return &vsock.Addr{ContextID: GuestCID, Port: c.GuestPort} }

// Listener is a net.Listener that queues a guest's connections for Accept. Drivers
// return one from Listen.
type Listener struct {
	addr    net.Addr
	release func() error

	mu     sync.Mutex
	closed bool
	queue  chan net.Conn
}

// NewListener returns a listener that queues at most backlog connections. Close calls
// release to free the port.
func NewListener(addr net.Addr, backlog int, release func() error) *Listener {
	return &Listener{addr: addr, release: release, queue: make(chan net.Conn, backlog)}
}

// Offer queues a connection. It returns false if the queue is full or the listener is
// closed.
func (l *Listener) Offer(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.queue) == cap(l.queue) {
		return false
	}
	l.queue <- c // does not block: only Offer sends, under l.mu
	return true
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	if c, open := <-l.queue; open {
		return c, nil
	}
	return nil, &net.OpError{Op: "accept", Net: l.addr.Network(), Addr: l.addr, Err: net.ErrClosed}
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.addr }

// Close implements net.Listener. It closes connections that were not accepted.
func (l *Listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.queue)
	l.mu.Unlock()
	for c := range l.queue {
		c.Close()
	}
	return l.release()
}

// SocketPair returns a Unix socket and its other end for another process. It has no name, so no
// third one can connect.
func SocketPair() (near *net.UnixConn, far *os.File, err error) {
	syscall.ForkLock.RLock() // macOS cannot make a pair that is closed by exec
	defer syscall.ForkLock.RUnlock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	unix.CloseOnExec(fds[1])
	far = os.NewFile(uintptr(fds[1]), "far")
	if near, err = SocketOf(fds[0]); err != nil {
		far.Close()
		return nil, nil, err
	}
	return near, far, nil
}

// SocketOf returns the Unix socket that a descriptor is, and closes the descriptor.
func SocketOf(fd int) (*net.UnixConn, error) {
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}
