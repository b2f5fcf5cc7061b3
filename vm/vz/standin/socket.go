package vz

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	afvsock "github.com/mdlayher/vsock"

	"osaurus-sandbox/vm"
)

const (
	// bootPatience is how long the first connection to a guest may take, which may have no
	// vsock driver yet, and answerPatience how long later ones may.
	bootPatience   = 500 * time.Millisecond
	answerPatience = 30 * time.Second
)

type VirtioSocketDevice struct {
	*pointer

	mu        sync.Mutex
	machine   vm.Machine // nil before the start
	answered  bool       // the guest has a vsock driver
	attempts  int        // of connections
	listeners map[uint32]*VirtioSocketListener
}

// connect connects the device to a machine that is about to start.
func (v *VirtioSocketDevice) connect(m vm.Machine) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.machine, v.answered = m, false
	for _, l := range v.listeners {
		if err := v.attach(l); err != nil {
			return err
		}
	}
	return nil
}

// Connect resets if there is no listener or no guest. The caller can set no deadline.
func (v *VirtioSocketDevice) Connect(port uint32) (*VirtioSocketConnection, error) {
	v.mu.Lock()
	machine, patience := v.machine, bootPatience
	if v.answered {
		patience = answerPatience
	}
	v.mu.Unlock()
	if machine == nil {
		return nil, connectionReset()
	}
	if v.mute() {
		return v.lateSuccess(port)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	guest, err := machine.Dial(ctx, port)
	if err != nil {
		return nil, connectionReset()
	}
	v.mu.Lock()
	v.answered = true
	v.mu.Unlock()
	return newConnection(guest, port, guest.LocalAddr().(*afvsock.Addr).Port)
}

func connectionReset() error {
	return &NSError{Domain: "NSPOSIXErrorDomain", Code: int(syscall.ECONNRESET), LocalizedDescription: "The operation couldn’t be completed. Connection reset by peer", UserInfo: "{}"}
}

// Listen replaces the port's listener.
func (v *VirtioSocketDevice) Listen(port uint32) (*VirtioSocketListener, error) {
	l := &VirtioSocketListener{device: v, port: port, acceptch: make(chan result, 1)}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listeners[port].close()
	v.listeners[port] = l
	return l, v.attach(l)
}

// attach accepts a listener's connections once there is a machine.
func (v *VirtioSocketDevice) attach(l *VirtioSocketListener) (err error) {
	if v.machine == nil {
		return nil
	}
	if l.inner, err = v.machine.Listen(l.port); err != nil {
		return err
	}
	go func() {
		for {
			guest, err := l.inner.Accept()
			if err != nil {
				return
			}
			c, err := newConnection(guest, l.port, guest.RemoteAddr().(*afvsock.Addr).Port)
			go func() { l.acceptch <- result{c, err} }() // leaks if nobody receives
		}
	}()
	return nil
}

type result struct {
	conn *VirtioSocketConnection
	err  error
}

type VirtioSocketListener struct {
	*pointer
	device    *VirtioSocketDevice
	port      uint32
	inner     net.Listener // nil before the start
	acceptch  chan result
	closeOnce sync.Once
}

var _ net.Listener = (*VirtioSocketListener)(nil)

func (v *VirtioSocketListener) Accept() (net.Conn, error) { return v.AcceptVirtioSocketConnection() }

// AcceptVirtioSocketConnection does not return after Close.
func (v *VirtioSocketListener) AcceptVirtioSocketConnection() (*VirtioSocketConnection, error) {
	r := <-v.acceptch
	return r.conn, r.err
}

// Close frees the port, even if another listener has it.
func (v *VirtioSocketListener) Close() error {
	v.closeOnce.Do(func() {
		v.device.mu.Lock()
		defer v.device.mu.Unlock()
		v.device.listeners[v.port].close()
		delete(v.device.listeners, v.port)
	})
	return nil
}

func (v *VirtioSocketListener) close() {
	if v != nil && v.inner != nil {
		v.inner.Close()
	}
}

func (v *VirtioSocketListener) Addr() net.Addr {
	return &VirtioSocketListenerAddr{afvsock.Host, v.port}
}

type VirtioSocketListenerAddr struct {
	CID  uint32
	Port uint32
}

func (a *VirtioSocketListenerAddr) Network() string { return "vsock" }
func (a *VirtioSocketListenerAddr) String() string  { return fmt.Sprintf("%d:%d", a.CID, a.Port) }

// VirtioSocketConnection is one end of a socket pair. The other end is joined with the guest's
// connection. It has no CloseWrite, so the end of the program's data means that it has closed the
// connection.
type VirtioSocketConnection struct {
	rawConn                     net.Conn
	destinationPort, sourcePort uint32
}

var _ net.Conn = (*VirtioSocketConnection)(nil)

func newConnection(guest net.Conn, destination, source uint32) (*VirtioSocketConnection, error) {
	ours, fd, err := socketPair("vsock")
	if err != nil {
		guest.Close()
		return nil, err
	}
	raw, err := handOver(fd)
	if err != nil {
		guest.Close()
		ours.Close()
		return nil, err
	}
	go func() {
		if _, err := io.Copy(ours, guest); err != nil {
			ours.Close()
			return
		}
		_ = ours.CloseWrite()
	}()
	go func() {
		_, _ = io.Copy(guest, ours)
		guest.Close()
		ours.Close()
	}()
	return &VirtioSocketConnection{raw, destination, source}, nil
}

func (v *VirtioSocketConnection) Read(b []byte) (n int, err error)  { return v.rawConn.Read(b) }
func (v *VirtioSocketConnection) Write(b []byte) (n int, err error) { return v.rawConn.Write(b) }
func (v *VirtioSocketConnection) Close() error                      { return v.rawConn.Close() }
func (v *VirtioSocketConnection) LocalAddr() net.Addr               { return v.rawConn.LocalAddr() }
func (v *VirtioSocketConnection) RemoteAddr() net.Addr              { return v.rawConn.RemoteAddr() }
func (v *VirtioSocketConnection) SetDeadline(t time.Time) error     { return v.rawConn.SetDeadline(t) }
func (v *VirtioSocketConnection) SetReadDeadline(t time.Time) error {
	return v.rawConn.SetReadDeadline(t)
}
func (v *VirtioSocketConnection) SetWriteDeadline(t time.Time) error {
	return v.rawConn.SetWriteDeadline(t)
}
func (v *VirtioSocketConnection) DestinationPort() uint32 { return v.destinationPort }
func (v *VirtioSocketConnection) SourcePort() uint32      { return v.sourcePort }
