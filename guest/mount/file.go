//go:build linux

package mount

import (
	"io"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// file is a non-blocking descriptor. It waits in Go's poller, and makes its system calls without telling the
// scheduler: each would wake the scheduler's monitor thread, whose timers cost an emulated guest more than a
// message does.
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

// call makes a system call, and again each time the poller is ready for it, until it does not block.
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
