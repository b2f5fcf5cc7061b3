//go:build linux

// Package relay connects programs in the guest to the host's bridge, and tells the host their Linux user and plugin.
package relay

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
)

const (
	// maxOpen bounds the connections of one socket. Further connections wait in the kernel. Each
	// costs this process two descriptors and, if the program does not read, some 180 KiB: twice
	// sendBuffer, two chunks, and the host's window.
	maxOpen = 96
	// maxShared bounds the connections of all sockets, so that they use at most half of the memory
	// reserved for the guest. A socket with fewer than assured connections may exceed it, so that
	// full rooms do not block others.
	maxShared = 384
	assured   = 8
	// dialPatience bounds a dial to the host. The vsock device answers at once unless the machine
	// is paused.
	dialPatience = 5 * time.Second
	// acceptPause is the pause after accept has failed for lack of memory or descriptors.
	acceptPause = 100 * time.Millisecond
)

// Conn is a *net.UnixConn or a *vsock.Conn.
type Conn interface {
	net.Conn
	syscall.Conn
	CloseRead() error
	CloseWrite() error
}

// Relay forwards the connections of all sockets to the host.
type Relay struct {
	key  protocol.BridgeKey
	dial func(context.Context) (Conn, error)

	mu    sync.Mutex
	freed sync.Cond // signalled when a connection or socket ends
	open  int
}

// New returns a relay that authenticates with the key of this boot and connects to the host with
// dial.
func New(key protocol.BridgeKey, dial func(context.Context) (Conn, error)) *Relay {
	r := &Relay{key: key, dial: dial}
	r.freed.L = &r.mu
	return r
}

// Socket is a Unix socket for the programs of a room.
type Socket struct {
	relay    *Relay
	listener *net.UnixListener
	uid      uint32
	mark     func(pid int) (string, error)
	life     context.Context // cancelled by Close
	end      context.CancelFunc
	work     sync.WaitGroup

	open int // guarded by Relay.mu
}

// Room creates the socket of a room, with permission for everyone there to connect. Programs of the
// room's user and of root connect as that user; others are refused. Mark returns the plugin that a
// process belongs to, or "".
func (r *Relay) Room(path string, uid uint32, mark func(pid int) (string, error)) (*Socket, error) {
	const op = "make the bridge's socket"
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, path, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		_ = l.Close()
		return nil, fault.New(fault.Unavailable, op, path, err)
	}
	s := &Socket{relay: r, listener: l, uid: uid, mark: mark}
	s.life, s.end = context.WithCancel(context.Background())
	s.work.Go(s.serve)
	return s, nil
}

// Close closes the socket and all its connections, and waits for them to end.
func (s *Socket) Close() error {
	s.end()
	err := s.listener.Close()
	s.relay.mu.Lock()
	s.relay.freed.Broadcast()
	s.relay.mu.Unlock()
	s.work.Wait()
	return err
}

func (s *Socket) serve() {
	for s.enter() {
		c, err := s.listener.AcceptUnix()
		if err != nil {
			s.leave()
			select {
			case <-s.life.Done():
				return
			case <-time.After(acceptPause):
				continue
			}
		}
		s.work.Go(func() {
			defer s.leave()
			s.connect(c)
		})
	}
}

// enter waits until the socket may have one more connection. It returns false if the socket is
// closed.
func (s *Socket) enter() bool {
	r := s.relay
	r.mu.Lock()
	defer r.mu.Unlock()
	for s.life.Err() == nil {
		if s.open < assured || s.open < maxOpen && r.open < maxShared {
			s.open++
			r.open++
			return true
		}
		r.freed.Wait()
	}
	return false
}

func (s *Socket) leave() {
	r := s.relay
	r.mu.Lock()
	defer r.mu.Unlock()
	s.open--
	r.open--
	r.freed.Broadcast()
}
