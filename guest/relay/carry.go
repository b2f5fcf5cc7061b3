//go:build linux

package relay

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// chunkSize is the size of a copy buffer. Most requests and answers fit into one.
	chunkSize = 8 << 10
	// sendBuffer is the send buffer for a program; the kernel uses twice that. Its default is seven
	// times as large.
	sendBuffer = 16 << 10
	// stall is how long a program may leave its answer unread. The host cannot bound this, because
	// it has already handed the answer over.
	stall = time.Minute
	// linger is how long the relay keeps reading from a program after the host has closed, so that
	// the program can read the host's error.
	linger = 500 * time.Millisecond
)

// connect connects a program to the host.
func (s *Socket) connect(c *net.UnixConn) {
	defer hangUp(c)
	defer context.AfterFunc(s.life, func() { hangUp(c) })()
	from, err := s.sender(c)
	if err != nil {
		return
	}
	_ = c.SetWriteBuffer(sendBuffer) // on failure the default stays
	ctx, cancel := context.WithTimeout(s.life, dialPatience)
	host, err := s.relay.dial(ctx)
	cancel()
	if err != nil {
		return
	}
	defer hangUp(host)
	defer context.AfterFunc(s.life, func() { hangUp(host) })()
	if _, err := host.Write(from.Bytes()); err != nil {
		return
	}
	join(c, host)
}

// join copies data in both directions until the host closes the connection or the program has gone. A
// program that only ends its input is still there: the host would take the end for a program that has
// gone, and cancel its request.
func join(program, host Conn) {
	var down sync.WaitGroup
	down.Go(func() {
		_ = carry(program, host)
		_ = program.CloseWrite()
		_ = program.SetReadDeadline(time.Now().Add(linger))
	})
	if err := carry(host, program); err == nil {
		waitGone(program)
		shut(host)
	} else { // the host reads no more and may have sent an error
		_ = program.SetReadDeadline(time.Now().Add(linger))
		_, _ = io.Copy(io.Discard, program)
	}
	down.Wait()
}

// waitGone waits until the program has closed both directions of its connection or the read
// deadline passes.
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

// carry copies from from to to until the end. It returns an error only if a write fails.
func carry(to, from Conn) error {
	for b := make([]byte, chunkSize); ; {
		n, ended := from.Read(b)
		if n > 0 {
			err := to.SetWriteDeadline(time.Now().Add(stall))
			if err == nil {
				_, err = to.Write(b[:n])
			}
			if err != nil {
				return err
			}
		}
		if ended != nil {
			return nil
		}
	}
}

// shut ends a connection even if copies of its descriptor are open: a starting command has copies
// of all descriptors until its execve.
func shut(c Conn) {
	_ = c.CloseRead()
	_ = c.CloseWrite()
}

func hangUp(c Conn) {
	shut(c)
	_ = c.Close()
}
