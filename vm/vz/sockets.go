//go:build darwin || vzstandin

package vz

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/Code-Hex/vz/v3"
	"github.com/mdlayher/vsock"

	"osaurus-sandbox/vm"
)

const (
	// redial is the pause between connection attempts to a booting guest.
	redial = 20 * time.Millisecond
	// firstPatience is how long Dial waits for the framework's answer before it makes
	// another attempt besides. The wait doubles up to maxPatience.
	firstPatience = 500 * time.Millisecond
	maxPatience   = 4 * time.Second
	// dialTimeout bounds Dial once the guest has answered.
	dialTimeout = 15 * time.Second
	// maxPending bounds a machine's attempts that the framework has not answered: each
	// keeps a goroutine.
	maxPending = 64
)

// switchboard is the host's side of a machine's vsock device.
type switchboard struct {
	device *vz.VirtioSocketDevice
	closed chan struct{}

	mu        sync.Mutex
	pending   int                     // attempts without an answer
	answered  bool                    // a connection has been made in either direction
	listeners map[uint32]*vm.Listener // nil once closed
}

func newSwitchboard(d *vz.VirtioSocketDevice) *switchboard {
	return &switchboard{device: d, closed: make(chan struct{}), listeners: map[uint32]*vm.Listener{}}
}

// Dial connects to a port of the guest. The framework does not tell a refused
// connection from a guest that is still booting. Until the first connection, Dial
// assumes that the guest is booting and tries again. It also tries again when the
// framework leaves an attempt without an answer, and takes the first connection.
func (s *switchboard) Dial(ctx context.Context, port uint32) (net.Conn, error) {
	answers := make(chan answer) // unbuffered: what Dial does not take is closed
	over := make(chan struct{})
	defer close(over)
	var limit <-chan time.Time
	if s.hasAnswered() {
		limit = time.After(dialTimeout)
	}
	patience := firstPatience
	next, last := time.After(0), error(nil)
	for {
		select {
		case <-next:
			s.attempt(port, answers, over)
			next = time.After(patience)
			patience = min(2*patience, maxPatience)
		case a := <-answers:
			switch {
			case a.err == nil:
				return a.c, nil
			case s.hasAnswered() && isRefusal(a.err):
				return nil, fmt.Errorf("%w: %w", syscall.ECONNREFUSED, a.err)
			case s.hasAnswered():
				return nil, a.err
			}
			next, last = time.After(redial), a.err
			patience = firstPatience
		case <-limit:
			return nil, fmt.Errorf("the framework has not answered for %v: %w", dialTimeout, context.DeadlineExceeded)
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), last)
		case <-s.closed:
			return nil, net.ErrClosed
		}
	}
}

// answer is the outcome of an attempt to connect.
type answer struct {
	c   vm.Conn
	err error
}

// attempt asks the framework for a connection, and offers it until over is closed.
func (s *switchboard) attempt(port uint32, answers chan<- answer, over <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == maxPending {
		return
	}
	s.pending++
	go func() {
		inner, err := s.device.Connect(port)
		s.mu.Lock()
		s.pending--
		s.mu.Unlock()
		var c vm.Conn
		if err == nil {
			c, err = s.adopt(inner, inner.SourcePort(), inner.DestinationPort())
		}
		select {
		case answers <- answer{c, err}:
		case <-over:
			if err == nil {
				c.Close()
			}
		}
	}()
}

// isRefusal reports whether nothing listens on the port. The framework reports that
// as a reset.
func isRefusal(err error) bool {
	e, ok := errors.AsType[*vz.NSError](err)
	if !ok || e.Domain != domainPOSIX {
		return false
	}
	code := syscall.Errno(e.Code)
	return code == syscall.ECONNRESET || code == syscall.ECONNREFUSED
}

func (s *switchboard) hasAnswered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered
}

// adopt takes a connection of the framework.
func (s *switchboard) adopt(inner *vz.VirtioSocketConnection, host, guest uint32) (vm.Conn, error) {
	socket, err := socketOf(inner)
	if err != nil {
		return vm.Conn{}, errors.Join(err, inner.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners == nil {
		socket.Close()
		return vm.Conn{}, net.ErrClosed
	}
	s.answered = true
	return vm.Conn{UnixConn: socket, HostPort: host, GuestPort: guest}, nil
}

// socketOf returns the socket of a connection, so that it can be given to another process. vz does
// not export it.
func socketOf(c *vz.VirtioSocketConnection) (*net.UnixConn, error) {
	field := reflect.ValueOf(c).Elem().FieldByName("rawConn")
	if field.IsValid() && field.Type() == reflect.TypeFor[net.Conn]() {
		if socket, ok := (*(*net.Conn)(unsafe.Pointer(field.UnsafeAddr()))).(*net.UnixConn); ok {
			return socket, nil
		}
	}
	return nil, fmt.Errorf("%T is not of vz v3.7.1: it has no socket", c)
}

// backlog is how many connections a listener queues for Accept. Further ones are closed,
// which bounds the descriptors that a hostile guest can use.
const backlog = 128

// Listen accepts the guest's connections to a port of the host.
func (s *switchboard) Listen(port uint32) (net.Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners == nil {
		return nil, net.ErrClosed
	}
	if s.listeners[port] != nil {
		return nil, os.NewSyscallError("bind", syscall.EADDRINUSE) // the framework would replace it
	}
	inner, err := s.device.Listen(port)
	if err != nil {
		return nil, err
	}
	l := vm.NewListener(&vsock.Addr{ContextID: vsock.Host, Port: port}, backlog, func() error {
		err := inner.Close()
		// Free the port last: closing the framework's listener removes any listener of
		// the port.
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, port)
		return err
	})
	s.listeners[port] = l
	go s.receive(inner, l)
	return l, nil
}

// receive takes the guest's connections from the framework. In v3.7.1, vz's Accept does
// not return after Close, so the goroutine leaks until the process ends.
func (s *switchboard) receive(inner *vz.VirtioSocketListener, l *vm.Listener) {
	for {
		c, err := inner.AcceptVirtioSocketConnection()
		if err != nil || c == nil {
			continue // a failed connection
		}
		if ours, err := s.adopt(c, c.DestinationPort(), c.SourcePort()); err == nil && !l.Offer(ours) {
			ours.Close()
		}
	}
}

// Close closes all listeners, since the framework may leave them open when the machine
// ends. Connections end with the process.
func (s *switchboard) Close() error {
	s.mu.Lock()
	if s.listeners == nil {
		s.mu.Unlock()
		return nil
	}
	close(s.closed)
	listeners := s.listeners
	s.listeners = nil
	s.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
	return nil
}
