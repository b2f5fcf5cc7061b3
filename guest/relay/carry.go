//go:build linux

package relay

import (
	"context"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// chunkSize is what is carried at a time: a request or an answer, mostly.
	chunkSize = 16 << 10
	// sendBuffer is half of what the kernel holds for a program that does not read, beyond
	// one chunk; by default it would be seven times that.
	sendBuffer = 16 << 10
	// stall is how long a program may leave its answer unread. The host, which has
	// long handed it over, cannot bound that.
	stall = time.Minute
	// linger is how long a program that still sends is heard after the host has
	// closed: it has not yet read why.
	linger = 500 * time.Millisecond
)

type chunk [chunkSize]byte

// connect joins a program with the host.
func (s *Socket) connect(c *net.UnixConn) {
	defer hangUp(c)
	from, err := s.sender(c)
	if err != nil || !s.track(c) {
		return
	}
	defer s.untrack(c)
	_ = c.SetWriteBuffer(sendBuffer) // then it holds more
	ctx, cancel := context.WithTimeout(s.life, dialPatience)
	host, err := s.relay.dial(ctx)
	cancel()
	if err != nil {
		return
	}
	defer hangUp(host)
	if !s.track(host) {
		return
	}
	defer s.untrack(host)
	if _, err := host.Write(from.Bytes()); err != nil {
		return
	}
	s.relay.join(c, host)
}

// join carries the bytes of both sides until the host closes the connection or the program has gone.
func (r *Relay) join(program, host Conn) {
	t := &turns{host: host}
	var down sync.WaitGroup
	down.Go(func() {
		_ = r.carry(program, host, t.answered)
		_ = program.CloseWrite()
		_ = program.SetReadDeadline(time.Now().Add(linger))
	})
	if err := r.carry(host, program, t.asked); err == nil {
		t.halfClosed()
		waitGone(program)
		shut(host)
	} else { // the host takes no more, and may have said why
		_ = program.SetReadDeadline(time.Now().Add(linger))
		_, _ = io.Copy(io.Discard, program)
	}
	down.Wait()
}

// turns holds back a program's half-close until the host has begun to answer the last request. The host takes
// an earlier end of the input for a program that has gone, and cancels what it asked for.
type turns struct {
	mu      sync.Mutex
	host    Conn
	waiting bool // the host has not begun to answer what the program sent last
	ended   bool // the program sends no more
}

func (t *turns) asked() { t.set(func() { t.waiting = true }) }

func (t *turns) answered() { t.set(func() { t.waiting = false }) }

func (t *turns) halfClosed() { t.set(func() { t.ended = true }) }

func (t *turns) set(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	if t.ended && !t.waiting {
		_ = t.host.CloseWrite()
	}
}

// waitGone returns when the program has closed both directions of its connection, or the read deadline passes.
func waitGone(program Conn) {
	raw, err := program.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		poll := []unix.PollFd{{Fd: int32(fd)}}
		_, err := unix.Poll(poll, 0)
		return err == nil && poll[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
	})
}

// carry copies bytes until there are no more, and calls before ahead of each write. Its error is a failed write.
func (r *Relay) carry(to, from Conn, before func()) error {
	raw, err := from.SyscallConn()
	if err != nil {
		return nil
	}
	for {
		b, n := r.receive(raw)
		if n == 0 {
			return nil
		}
		before()
		err := to.SetWriteDeadline(time.Now().Add(stall))
		if err == nil {
			_, err = to.Write(b[:n])
		}
		r.chunks.Put(b)
		if err != nil {
			return err
		}
	}
}

// receive waits for bytes, and takes a chunk for them when they are there. None
// are the end, whatever ended it.
func (r *Relay) receive(raw syscall.RawConn) (b *chunk, n int) {
	err := raw.Read(func(fd uintptr) bool {
		b = r.chunks.Get().(*chunk)
		for {
			var err error
			n, err = unix.Read(int(fd), b[:])
			if err == unix.EINTR {
				continue
			}
			if err == nil && n > 0 {
				return true
			}
			r.chunks.Put(b)
			b, n = nil, 0
			return err != unix.EAGAIN
		}
	})
	if err != nil {
		return nil, 0
	}
	return b, n
}

// shut ends a connection even where copies of its descriptor are open: a command that is starting
// has copies of all descriptors until its execve.
func shut(c Conn) {
	_ = c.CloseRead()
	_ = c.CloseWrite()
}

func hangUp(c Conn) {
	shut(c)
	_ = c.Close()
}
