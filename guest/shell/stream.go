//go:build linux

package shell

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stream reads a FIFO that a call's command and its background processes write to. All but the
// file is guarded by the session's lock.
type stream struct {
	file *os.File
	raw  syscall.RawConn
	take func([]byte)
	done bool // there are no writers left
}

func newStream(file *os.File, take func([]byte)) (*stream, error) {
	raw, err := file.SyscallConn()
	return &stream{file: file, raw: raw, take: take}, err
}

// close makes follow return. It does not wait, so the caller may hold the lock.
func (s *stream) close() { _ = s.file.SetReadDeadline(time.Unix(1, 0)) }

// turn bounds how much is read while holding the lock.
const turn = 64 << 10

// follow reads until there are no writers or the stream is closed. It calls before with the lock
// held ahead of each read.
func (s *stream) follow(lock sync.Locker, before func()) {
	defer s.file.Close()
	for {
		// Not file.Read, which returns EOF before the first writer.
		err := s.raw.Read(func(fd uintptr) bool {
			lock.Lock()
			defer lock.Unlock()
			n := pending(int(fd)) // later bytes are for the next read
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

// holds returns how many bytes the FIFO holds now.
func (s *stream) holds() (n int) {
	_ = s.raw.Control(func(fd uintptr) { n = pending(int(fd)) }) // fails if the stream is closed
	return n
}

// ended reports whether there are no writers left. The caller holds the lock.
func (s *stream) ended() bool {
	if !s.done {
		_ = s.raw.Control(func(fd uintptr) { s.done = hungUp(int(fd)) })
	}
	return s.done
}

// drain reads n bytes. The caller holds the lock.
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

// read reads up to n bytes. The caller holds the lock.
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
