//go:build linux

package mount

import (
	"io"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// file is a non-blocking descriptor. Its system calls are made without Go's scheduler, which waits for its
// poller alone: each call would wake the scheduler's monitor, whose timers cost a guest under emulation more
// than a message.
type file struct{ syscall.RawConn }

func (f file) Read(b []byte) (int, error) {
	n, err := call(f.RawConn.Read, unix.SYS_READ, b)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func (f file) Write(b []byte) (done int, err error) {
	for n := 0; done < len(b) && err == nil; done += n {
		n, err = call(f.RawConn.Write, unix.SYS_WRITE, b[done:])
	}
	return done, err
}

// call makes a system call on the descriptor of ready when it does not block.
func call(ready func(func(fd uintptr) bool) error, number uintptr, b []byte) (int, error) {
	var n uintptr
	var errno syscall.Errno
	err := ready(func(fd uintptr) bool {
		n, _, errno = unix.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		return errno != unix.EAGAIN
	})
	switch {
	case err != nil:
		return 0, err
	case errno != 0:
		return 0, errno
	}
	return int(n), nil
}
