//go:build linux

// Package relay connects programs in the guest to the host's bridge, and tells it their Linux user and plugin.
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
	// maxOpen bounds the connections of one socket. More programs than an agent has
	// reason to run at once can ask at once; the rest wait in the kernel until one
	// has its answer. It is what an agent can hold of this process: two descriptors
	// and, where it does not read its answers, some 180 KiB each: sendBuffer twice, a
	// chunk, and the window of the host. The host closes what is beyond its own bound,
	// which is higher.
	maxOpen = 96
	// maxShared bounds those of all sockets together, at half of the memory that rooms
	// leave to the guest itself. A socket with fewer than assured open may always have
	// another one: four rooms that are full do not keep the next from asking, nor
	// thirty after it.
	maxShared = 384
	assured   = 8
	// dialPatience bounds the way to the host. Its device answers by itself, so
	// only a machine that stands still takes long.
	dialPatience = 5 * time.Second
	// acceptPause is the pause after a connection could not be taken, for want of memory
	// or descriptors, which others may give back.
	acceptPause = 100 * time.Millisecond
)

// Conn is a connection of either kind: a *net.UnixConn, a *vsock.Conn.
type Conn interface {
	net.Conn
	syscall.Conn
	CloseRead() error
	CloseWrite() error
}

// Relay is the way of all sockets to the host.
type Relay struct {
	key  protocol.BridgeKey
	dial func(context.Context) (Conn, error)
	// chunks are for what is under way: a connection that waits has none.
	chunks sync.Pool

	mu    sync.Mutex
	freed sync.Cond // a connection has ended, or a socket
	open  int
}

// New returns a relay that has the key of this boot, and its way to the host.
func New(key protocol.BridgeKey, dial func(context.Context) (Conn, error)) *Relay {
	r := &Relay{key: key, dial: dial, chunks: sync.Pool{New: func() any { return new(chunk) }}}
	r.freed.L = &r.mu
	return r
}

// Socket is a Unix socket for programs of one user, or of all.
type Socket struct {
	relay    *Relay
	listener *net.UnixListener
	userOf   func(peer uint32) (uid uint32, ok bool)
	mark     func(pid int) (string, error) // nil: none has one
	life     context.Context               // ends with Close
	end      context.CancelFunc
	work     sync.WaitGroup

	// Relay.mu guards these.
	open  int
	conns map[Conn]struct{}
}

// Room makes the socket of a room. Programs of its user and of root count as that user, others are
// refused. Mark returns the plugin that a process belongs to, or "".
func (r *Relay) Room(path string, uid uint32, mark func(pid int) (string, error)) (*Socket, error) {
	return r.listen(path, mark, func(peer uint32) (uint32, bool) { return uid, peer == uid || peer == 0 })
}

// Guest makes the socket of the guest itself, which every user may use in its own name.
func (r *Relay) Guest(path string) (*Socket, error) {
	return r.listen(path, nil, func(peer uint32) (uint32, bool) { return peer, true })
}

// listen makes a socket that everybody may connect to who sees it.
func (r *Relay) listen(path string, mark func(int) (string, error), userOf func(uint32) (uint32, bool)) (*Socket, error) {
	const op = "make the bridge's socket"
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, path, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		_ = l.Close()
		return nil, fault.New(fault.Unavailable, op, path, err)
	}
	s := &Socket{relay: r, listener: l, userOf: userOf, mark: mark, conns: map[Conn]struct{}{}}
	s.life, s.end = context.WithCancel(context.Background())
	s.work.Go(s.serve)
	return s, nil
}

// Close ends the socket and all its connections. It returns when nothing of them
// is left.
func (s *Socket) Close() error {
	s.end()
	err := s.listener.Close()
	s.relay.mu.Lock()
	for c := range s.conns {
		hangUp(c)
	}
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

// enter waits until the socket may have one more connection. It may not when it
// has ended.
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

// track has Close end a connection.
func (s *Socket) track(c Conn) bool {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	s.conns[c] = struct{}{}
	return s.life.Err() == nil
}

func (s *Socket) untrack(c Conn) {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	delete(s.conns, c)
}
