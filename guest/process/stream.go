//go:build linux

package process

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// Stream is what a descriptor of a child is.
type Stream int

// The kinds of streams. The zero value is /dev/null.
const (
	Null Stream = iota
	Pipe        // a new pipe: see Child.Pipes
	Same        // the stream of the descriptor before it
)

// streams are a child's ends of its descriptors 0 to 2.
type streams struct {
	files [3]*os.File
	made  []*os.File // of them: to be closed once the child has them
}

// open opens the streams of a child, and our ends of them.
func (m *Manager) open(s Spec, c *Child) (t streams, err error) {
	if s.Terminal != nil {
		var theirs *os.File
		c.Terminal, theirs, err = openTerminal(s.Place, *s.Terminal)
		return streams{[3]*os.File{theirs, theirs, theirs}, []*os.File{theirs}}, err
	}
	for i, kind := range s.Streams {
		t.files[i] = m.null
		switch {
		case i == 0 && s.Input != nil:
			t.files[i] = s.Input
		case kind == Same:
			t.files[i] = t.files[i-1]
		case kind == Pipe:
			if c.Pipes[i], t.files[i], err = openPipe(s.Place, i); err != nil {
				return t, err
			}
			t.made = append(t.made, t.files[i])
		}
	}
	return t, nil
}

func (t streams) close() {
	for _, f := range t.made {
		_ = f.Close()
	}
}

// CloseStreams closes our ends of the child's pipes or of its terminal.
func (c *Child) CloseStreams() {
	for _, f := range append(c.Pipes[:], c.Terminal) {
		_ = f.Close() // fails for nil
	}
}

// openPipe makes a pipe for a descriptor of a child: the child reads from descriptor 0 and writes
// to others.
func openPipe(p Place, descriptor int) (ours, theirs *os.File, err error) {
	const op = "make pipe"
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fault.New(fault.Unavailable, op, "", err)
	}
	if descriptor == 0 {
		ends[0], ends[1] = ends[1], ends[0]
	}
	// Only our end is non-blocking: programs do not expect that of their streams.
	_ = unix.SetNonblock(ends[0], true)
	ours, theirs = os.NewFile(uintptr(ends[0]), "pipe"), os.NewFile(uintptr(ends[1]), "pipe")
	if err := give(ends[1], p); err != nil {
		_, _ = ours.Close(), theirs.Close()
		return nil, nil, fault.New(fault.Execution, op, "give it to its user", err)
	}
	return ours, theirs, nil
}

// give changes the owner of a pipe or terminal to the user of a place, because programs also open
// it by name, as /dev/stdout.
func give(fd int, p Place) error {
	if p == nil || p.Credential() == nil {
		return nil
	}
	c := p.Credential()
	return unix.Fchown(fd, int(c.Uid), int(c.Gid))
}

// holdsMost is more than a terminal can buffer. The kernel does not report that size.
const holdsMost = 64 << 10

// Carry reads a pipe or terminal to its end and passes the data to take. To stop it after the
// command has ended, set a read deadline: Carry then passes on what is buffered and returns, even
// if other processes keep writing.
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

// holds returns the size of the buffer of a pipe or terminal, or an upper bound.
func holds(f *os.File) int {
	most := holdsMost
	_ = Control(f, func(fd int) error {
		n, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
		if err == nil {
			most = n
		}
		return err // of a terminal
	})
	return most
}

// readLeft reads buffered data without waiting. It returns 0 if there is none. Read cannot be used,
// since it fails without reading once the deadline has passed.
func readLeft(f *os.File, b []byte) int {
	raw, err := f.SyscallConn()
	if err != nil || f.SetReadDeadline(time.Time{}) != nil {
		return 0
	}
	n := 0
	_ = raw.Read(func(fd uintptr) bool {
		n, _ = unix.Read(int(fd), b) // does not block: the descriptor is non-blocking
		return true
	})
	return max(n, 0)
}

// TerminalPlace is a Place that has its own pseudo-terminals.
type TerminalPlace interface {
	// Multiplexer returns a descriptor of the place's ptmx, opened with O_PATH.
	Multiplexer() int
}

// Size is the size of a terminal in characters.
type Size struct{ Rows, Cols uint16 }

// openTerminal makes a pseudo-terminal in a place, or in the guest's root if p is nil. Ours is the
// viewer's side.
func openTerminal(p Place, size Size) (ours, theirs *os.File, err error) {
	const op = "open terminal"
	path := "/dev/ptmx"
	if t, ok := p.(TerminalPlace); ok {
		// Reopen through the descriptor, so that no path of the place is followed.
		path = "/proc/self/fd/" + strconv.Itoa(t.Multiplexer())
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fault.New(fault.Unavailable, op, "", err).Advise("Close a terminal that you do not need.")
	}
	// NewFile takes a non-blocking descriptor into the poller, so that reads
	// can be ended.
	ours = os.NewFile(uintptr(fd), "terminal")
	defer func() {
		if err != nil {
			_, _ = ours.Close(), theirs.Close()
		}
	}()
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return ours, nil, fault.New(fault.Execution, op, "unlock", err)
	}
	peer, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if e != 0 {
		return ours, nil, fault.New(fault.Execution, op, "open its other side", e)
	}
	theirs = os.NewFile(peer, "terminal")
	if err := give(int(peer), p); err != nil {
		return ours, theirs, fault.New(fault.Execution, op, "give it to its user", err)
	}
	return ours, theirs, Resize(ours, size)
}

// Resize changes the size of a terminal. The kernel signals its programs.
func Resize(ours *os.File, size Size) error {
	err := Control(ours, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
	if err != nil {
		return fault.New(fault.Execution, "resize terminal", "", err)
	}
	return nil
}

// Control calls f with the descriptor of a file or connection. Closing waits until f has returned.
func Control(c syscall.Conn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}
