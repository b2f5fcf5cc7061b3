//go:build linux

package process

import (
	"os"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// OpenPipe makes a pipe for a child in a place (nil: the guest's own), which reads from it
// as its descriptor 0, and writes to it as another. Theirs, which the caller closes, is what
// the child gets.
func OpenPipe(p Place, descriptor int) (ours *os.File, theirs int, err error) {
	const op = "make pipe"
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, fault.New(fault.Unavailable, op, "", err)
	}
	near, theirs := ends[0], ends[1]
	if descriptor == 0 {
		near, theirs = theirs, near
	}
	// Only our end is non-blocking: programs do not expect it of theirs.
	_ = unix.SetNonblock(near, true)
	ours = os.NewFile(uintptr(near), "pipe")
	if err := give(theirs, p); err != nil {
		_, _ = ours.Close(), unix.Close(theirs)
		return nil, -1, fault.New(fault.Execution, op, "give it to its user", err)
	}
	return ours, theirs, nil
}

// give has a pipe or a terminal belong to who runs in a place: programs open it by its
// name too, /dev/stdout and the like.
func give(fd int, p Place) error {
	if p == nil || p.Credential() == nil {
		return nil
	}
	c := p.Credential()
	return unix.Fchown(fd, int(c.Uid), int(c.Gid))
}
