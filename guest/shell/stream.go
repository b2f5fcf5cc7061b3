//go:build linux

package shell

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stream is what a call's command, and what that leaves in the background, write
// into one of its FIFOs. Everything but the file is guarded by the session's lock.
type stream struct {
	file *os.File
	raw  syscall.RawConn
	take func([]byte)
	done bool // nobody can write any more
}

func newStream(file *os.File, take func([]byte)) (*stream, error) {
	raw, err := file.SyscallConn()
	return &stream{file: file, raw: raw, take: take}, err
}

// close has follow end. It does not wait for that, so the lock may be held.
func (s *stream) close() { _ = s.file.SetReadDeadline(time.Unix(1, 0)) }

// turn is how much is read from a stream at once: others want the lock too.
const turn = 64 << 10

// follow reads until nobody can write any more, or the stream is closed. Before
// is called with the lock held each time that there may be something.
func (s *stream) follow(lock sync.Locker, before func()) {
	defer s.file.Close()
	for {
		// A FIFO has an end before its first writer too, so it is not read as a
		// file: Read would return at once.
		err := s.raw.Read(func(fd uintptr) bool {
			lock.Lock()
			defer lock.Unlock()
			n := pending(int(fd)) // what comes after this is for the next time
			if n > 0 {
				before()
				s.read(int(fd), min(n, turn))
			}
			s.done = n <= turn && hungUp(int(fd))
			return s.done || n > turn
		})
		lock.Lock()
		s.done = s.done || err != nil
		done := s.done
		lock.Unlock()
		if done {
			return
		}
	}
}

// holds is how much is in the FIFO at this moment.
func (s *stream) holds() (n int) {
	_ = s.raw.Control(func(fd uintptr) { n = pending(int(fd)) }) // fails on a stream that is closed
	return n
}

// ended reports whether nobody writes any more. The lock is held.
func (s *stream) ended() bool {
	if !s.done {
		_ = s.raw.Control(func(fd uintptr) { s.done = hungUp(int(fd)) })
	}
	return s.done
}

// drain reads n bytes. The lock is held.
func (s *stream) drain(n int) {
	if n == 0 {
		return
	}
	_ = s.raw.Control(func(fd uintptr) { s.read(int(fd), n) })
}

func pending(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// read takes at most n bytes, if there are so many. The lock is held.
func (s *stream) read(fd, n int) {
	buf := make([]byte, min(n, turn))
	for got := 0; got < n; {
		m, err := unix.Read(fd, buf[:min(len(buf), n-got)])
		if err == unix.EINTR {
			continue
		}
		if m <= 0 {
			return
		}
		got += m
		s.take(buf[:m])
	}
}

// hungUp reports whether a FIFO had writers, has none any more, and is empty.
func hungUp(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0 && p[0].Revents&unix.POLLHUP != 0 && p[0].Revents&unix.POLLIN == 0
}
