// Package child runs each machine of a driver in a process of its own, so that an exception in the
// driver's framework ends one machine and not the daemon.
package child

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// What the child inherits: JSON-RPC calls of the parent, a socket to send connections to it, and
// the machine's NIC if it has one.
const (
	callsFD = 3 + iota
	connsFD
	nicFD
)

// service is the name under which the child serves calls.
const service = "Machine"

// Answer is what every call returns.
type Answer struct {
	Failure  *failure `json:",omitempty"`
	State    vm.State `json:",omitempty"`
	Over     bool     `json:",omitempty"` // the machine has ended, or never will start
	Warnings []string `json:",omitempty"`
}

// Known is what the parent knows of a machine.
type Known struct {
	State    vm.State
	Warnings int
}

// DialArgs are the arguments of Dial.
type DialArgs struct {
	ID       uint64 // under which to send the connection
	Port     uint32
	Deadline time.Time // or zero
}

// nothing are the arguments of calls that need none.
type nothing = struct{}

// ListenArgs are the arguments of Listen.
type ListenArgs struct {
	ID   uint64 // under which to send connections, and for Unlisten
	Port uint32
}

// failure carries an error with its kind and advice. Of wrapped errors it keeps only the number of a
// system call's, and whether it was a timeout.
type failure struct {
	Kind                       fault.Kind
	Op, Subject, Cause, Advice string
	Errno                      syscall.Errno
}

func newFailure(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Kind: fault.KindOf(err), Cause: err.Error(), Advice: fault.AdviceOf(err)}
	if e, ok := err.(*fault.Error); ok {
		f.Op, f.Subject, f.Cause = e.Op, e.Subject, ""
		if e.Err != nil {
			f.Cause = e.Err.Error()
		}
	}
	_ = errors.As(err, &f.Errno)
	return f
}

// err returns the error, or nil.
func (f *failure) err() error {
	if f == nil {
		return nil
	}
	return fault.New(f.Kind, f.Op, f.Subject, f.cause()).Advise(f.Advice)
}

func (f *failure) cause() error {
	switch {
	case f.Errno != 0:
		return known{f.Cause, f.Errno}
	case f.Kind == fault.Timeout:
		return known{f.Cause, context.DeadlineExceeded}
	case f.Cause == "":
		return nil
	}
	return errors.New(f.Cause)
}

// known is an error of the other process that wraps one that this process knows.
type known struct {
	text string
	is   error
}

func (e known) Error() string { return e.text }
func (e known) Unwrap() error { return e.is }

// socketPair returns a connection and a file for the other process.
func socketPair() (net.Conn, *os.File, error) {
	near, far, err := filePair()
	if err != nil {
		return nil, nil, err
	}
	defer near.Close()
	c, err := net.FileConn(near)
	if err != nil {
		far.Close()
		return nil, nil, err
	}
	return c, far, nil
}

func filePair() (near, far *os.File, err error) {
	syscall.ForkLock.RLock() // macOS cannot make a pair that is closed by exec
	defer syscall.ForkLock.RUnlock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	return os.NewFile(uintptr(fds[0]), "child"), os.NewFile(uintptr(fds[1]), "child"), nil
}

// header comes with each connection's descriptor.
type header struct {
	ID                  uint64 // of a DialArgs or ListenArgs
	HostPort, GuestPort uint32
}

func sendConn(to *net.UnixConn, id uint64, c vm.Conn) error {
	f, err := c.File()
	if err != nil {
		return err
	}
	defer f.Close()
	message, err := binary.Append(nil, binary.LittleEndian, header{id, c.HostPort, c.GuestPort})
	if err != nil {
		return err
	}
	_, _, err = to.WriteMsgUnix(message, unix.UnixRights(int(f.Fd())), nil)
	return err
}

func receiveConn(from *net.UnixConn) (id uint64, c vm.Conn, err error) {
	var h header
	message, rights := make([]byte, binary.Size(h)), make([]byte, unix.CmsgSpace(4))
	n, oob, _, _, err := from.ReadMsgUnix(message, rights)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err == nil {
		_, err = io.ReadFull(from, message[n:])
	}
	if err != nil {
		return 0, c, err
	}
	_, _ = binary.Decode(message, binary.LittleEndian, &h)
	messages, err := unix.ParseSocketControlMessage(rights[:oob])
	if err != nil || len(messages) != 1 {
		return 0, c, errors.New("a message without a descriptor")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return 0, c, errors.New("a message without a descriptor")
	}
	f := os.NewFile(uintptr(fds[0]), "vsock")
	defer f.Close()
	socket, err := net.FileConn(f)
	if err != nil {
		return 0, c, err
	}
	return h.ID, vm.Conn{UnixConn: socket.(*net.UnixConn), HostPort: h.HostPort, GuestPort: h.GuestPort}, nil
}
