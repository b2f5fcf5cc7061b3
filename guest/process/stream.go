//go:build linux

package process

import (
	"errors"
	"os"
	"strconv"
	"time"

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

// give makes the user of a place own a pipe or a terminal: programs also open it by name, as
// /dev/stdout.
func give(fd int, p Place) error {
	if p == nil || p.Credential() == nil {
		return nil
	}
	c := p.Credential()
	return unix.Fchown(fd, int(c.Uid), int(c.Gid))
}

// holdsMost is more than a terminal holds, which does not say how much that is.
const holdsMost = 64 << 10

// Carry hands out what comes out of a pipe or a terminal until that ends. Once a deadline for
// it is over, its writers are to have ended: what they have left is handed out, and no more, since
// others may have it open who write on.
func Carry(f *os.File, buf []byte, take func([]byte) error) error {
	for {
		n, err := f.Read(buf)
		if n > 0 {
			if err := take(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return nil
		}
	}
	for most := holds(f); most > 0; {
		n := readLeft(f, buf[:min(len(buf), most)])
		if n == 0 {
			return nil
		}
		if err := take(buf[:n]); err != nil {
			return err
		}
		most -= n
	}
	return nil
}

// holds is the most that there can be in a pipe or a terminal.
func holds(f *os.File) int {
	most := holdsMost
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			if n, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err == nil {
				most = n
			}
		})
	}
	return most
}

// readLeft reads what there is, and waits for nothing; 0 says that there is nothing. A deadline
// that is over keeps Read from looking, also where it is over because this process had no
// processor until then.
func readLeft(f *os.File, b []byte) int {
	raw, err := f.SyscallConn()
	if err != nil || f.SetReadDeadline(time.Time{}) != nil {
		return 0
	}
	n := 0
	_ = raw.Read(func(fd uintptr) bool {
		n, _ = unix.Read(int(fd), b) // which may block in neither
		return true
	})
	return max(n, 0)
}

// Terminals is a Place that has terminals of its own.
type Terminals interface {
	// Multiplexer is a descriptor of the place's ptmx, opened with O_PATH.
	Multiplexer() int
}

// Size is the size of a terminal in characters.
type Size struct{ Rows, Cols uint16 }

// OpenTerminal makes a terminal in a place (nil: the guest's own). Ours is the
// side of the viewer. Theirs, which the caller closes, is what a child gets as its
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
