//go:build linux

package process

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// Terminals is a Place that has terminals of its own.
type Terminals interface {
	// Multiplexer is a descriptor of the place's ptmx, opened with O_PATH.
	Multiplexer() int
}

// Size is the size of a terminal in characters.
type Size struct{ Rows, Cols uint16 }

// OpenTerminal makes a terminal in a place (nil: the guest's own). Ours is the
// side of who shows it. Theirs, which the caller closes, is what a child gets as its
// descriptors 0 to 2 with Spec.TTY.
func OpenTerminal(p Place, size Size) (ours *os.File, theirs int, err error) {
	const op = "open terminal"
	path := "/dev/ptmx"
	if t, ok := p.(Terminals); ok {
		// Opened again through its descriptor, no path of the place is walked.
		path = "/proc/self/fd/" + strconv.Itoa(t.Multiplexer())
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, -1, fault.New(fault.Unavailable, op, "", err).Advise("Close a terminal that is not needed any more.")
	}
	// NewFile takes a non-blocking descriptor into the poller, so that reads
	// can be ended.
	ours = os.NewFile(uintptr(fd), "terminal")
	defer func() {
		if err != nil {
			_ = ours.Close()
		}
	}()
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, -1, fault.New(fault.Execution, op, "unlock", err)
	}
	peer, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if e != 0 {
		return nil, -1, fault.New(fault.Execution, op, "open its other side", e)
	}
	theirs = int(peer)
	if err := give(theirs, p); err != nil {
		_ = unix.Close(theirs)
		return nil, -1, fault.New(fault.Execution, op, "give it to its user", err)
	}
	if err := Resize(ours, size); err != nil {
		_ = unix.Close(theirs)
		return nil, -1, err
	}
	return ours, theirs, nil
}

// Resize changes the size of a terminal, which tells the programs on it.
func Resize(ours *os.File, size Size) error {
	raw, err := ours.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
	if err = errors.Join(err, failed); err != nil {
		return fault.New(fault.Execution, "resize terminal", "", err)
	}
	return nil
}
