package protocol

import (
	"cmp"
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// SetWindow sets how many bytes the guest's kernel receives ahead on a vsock connection.
func SetWindow(c syscall.Conn, bytes uint64) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var refused error
	err = raw.Control(func(fd uintptr) {
		for _, option := range []int{unix.SO_VM_SOCKETS_BUFFER_MAX_SIZE, unix.SO_VM_SOCKETS_BUFFER_SIZE} {
			refused = cmp.Or(refused, unix.SetsockoptUint64(int(fd), unix.AF_VSOCK, option, bytes))
		}
	})
	return errors.Join(err, refused)
}
