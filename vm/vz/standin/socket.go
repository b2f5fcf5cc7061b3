package vz

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	afvsock "github.com/mdlayher/vsock"

	"osaurus-sandbox/vm/qemu/vhostuser"
	"osaurus-sandbox/vm/qemu/vsock"
)

const (
	guestCID = 3
	// patience is how long a guest that has a vsock driver may take to answer.
	patience = 30 * time.Second
)

// VirtioSocketDevice is also the device that is served to QEMU.
type VirtioSocketDevice struct {
	*pointer
	device *vsock.Device
	driven atomic.Bool // the guest has a driver for it

	mu        sync.Mutex
	listeners map[uint32]net.Listener
}

func newSocketDevice() *VirtioSocketDevice {
	return &VirtioSocketDevice{device: vsock.New(guestCID), listeners: map[uint32]net.Listener{}}
}

// served is the device as QEMU sees it.
type served struct {
	*vsock.Device
	socket *VirtioSocketDevice
}

var _ vhostuser.Device = served{}

func (s served) HandleQueue(q *vhostuser.Queue) {
	s.socket.driven.Store(true)
	s.Device.HandleQueue(q)
}

func (s served) Reset() {
	s.socket.driven.Store(false)
	s.Device.Reset()
}

// Connect resets where there is nobody to connect to, be it a listener or a
// guest. It has no deadline of the caller's.
func (v *VirtioSocketDevice) Connect(port uint32) (*VirtioSocketConnection, error) {
	if !v.driven.Load() {
		return nil, connectionReset()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	guest, err := v.device.Dial(ctx, port)
	if err != nil {
		return nil, connectionReset()
	}
	return newConnection(guest, port, guest.LocalAddr().(*afvsock.Addr).Port)
}

func connectionReset() error {
	return &NSError{Domain: "NSPOSIXErrorDomain", Code: int(syscall.ECONNRESET), LocalizedDescription: "The operation couldn’t be completed. Connection reset by peer", UserInfo: "{}"}
}

// Listen takes the port from who has it.
func (v *VirtioSocketDevice) Listen(port uint32) (*VirtioSocketListener, error) {
	l := &VirtioSocketListener{device: v, port: port, acceptch: make(chan result, 1)}
	v.mu.Lock()
	defer v.mu.Unlock()
	if former := v.listeners[port]; former != nil {
		former.Close()
	}
	inner, err := v.device.Listen(port)
	if err != nil {
		return nil, err
	}
	v.listeners[port] = inner
	go func() {
		for {
			guest, err := inner.Accept()
			if err != nil {
				return
			}
			c, err := newConnection(guest, port, guest.RemoteAddr().(*afvsock.Addr).Port)
			go func() { l.acceptch <- result{c, err} }() // for ever, if nobody takes it
		}
	}()
	return l, nil
}

type result struct {
	conn *VirtioSocketConnection
	err  error
}

type VirtioSocketListener struct {
	*pointer
	device    *VirtioSocketDevice
	port      uint32
	acceptch  chan result
	closeOnce sync.Once
}

var _ net.Listener = (*VirtioSocketListener)(nil)

func (v *VirtioSocketListener) Accept() (net.Conn, error) { return v.AcceptVirtioSocketConnection() }

// AcceptVirtioSocketConnection does not return because of Close.
func (v *VirtioSocketListener) AcceptVirtioSocketConnection() (*VirtioSocketConnection, error) {
	r := <-v.acceptch
	return r.conn, r.err
}

// Close frees the port, whoever has it.
func (v *VirtioSocketListener) Close() error {
	v.closeOnce.Do(func() {
		v.device.mu.Lock()
		defer v.device.mu.Unlock()
		if l := v.device.listeners[v.port]; l != nil {
			l.Close()
			delete(v.device.listeners, v.port)
		}
	})
	return nil
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

// VirtioSocketConnection is an end of a socket pair whose other end is joined
// with the guest's connection. There is no CloseWrite, so that an end of what
// the program sends can only mean that it is done with the connection.
type VirtioSocketConnection struct {
	rawConn                     net.Conn
	destinationPort, sourcePort uint32
}

var _ net.Conn = (*VirtioSocketConnection)(nil)

func newConnection(guest net.Conn, destination, source uint32) (*VirtioSocketConnection, error) {
	ours, file, err := socketPair("vsock")
	if err != nil {
		guest.Close()
		return nil, err
	}
	defer file.Close()
	raw, err := net.FileConn(file)
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
