package link

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Room for frames in each direction. Apple advises a receive buffer of two to four times the send
// buffer; Linux counts what is under way to the sender and reduces both to its limits.
const (
	sendBuffer    = 1 << 20
	receiveBuffer = 4 << 20
)

// Pair returns the two ends of a wire that carries one frame a datagram.
func Pair() (a, b *os.File, err error) {
	syscall.ForkLock.RLock() // macOS cannot make the descriptors close-on-exec in one step
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range fds {
		err = errors.Join(err, unix.SetNonblock(fd, true), unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer))
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer) // macOS refuses more than its limit, and keeps what it had
	}
	if err != nil {
		_ = unix.Close(fds[0])
		_ = unix.Close(fds[1])
		return nil, nil, os.NewSyscallError("setsockopt", err)
	}
	return os.NewFile(uintptr(fds[0]), "network"), os.NewFile(uintptr(fds[1]), "network"), nil
}
