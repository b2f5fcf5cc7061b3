// Package child runs each machine of a driver in a process of its own, so that an exception in the
// driver's framework ends one machine and not the daemon.
package child

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// What the child inherits: JSON-RPC calls of the parent, the descriptors that its answers speak
// of, and the machine's NIC if it has one.
const (
	callsFD = 3 + iota
	descriptorsFD
	nicFD
)

// service is the name under which the child serves calls.
const service = "Machine"

// Answer is what every call returns.
type Answer struct {
	Failure *failure `json:",omitempty"`
	// Descriptor is the number under which a descriptor was sent, or 0.
	Descriptor uint64 `json:",omitempty"`
	// HostPort and GuestPort are the ports of a connection.
	HostPort, GuestPort uint32   `json:",omitempty"`
	State               vm.State `json:",omitempty"`
	Over                bool     `json:",omitempty"` // the machine has ended, or never will start
	Warnings            []string `json:",omitempty"`
}

// Known is what the parent knows of a machine.
type Known struct {
	State    vm.State
	Warnings int
}

// DialArgs are the arguments of Dial.
type DialArgs struct {
	Call uint64 // for Cancel
	Port uint32
}

// ListenArgs are the arguments of Listen.
type ListenArgs struct {
	ID   uint64 // for Accept and Unlisten: a port may get another listener
	Port uint32
}

// failure carries an error with its kind and advice. Of wrapped errors it keeps only a system call's
// number.
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
		return errno{f.Cause, f.Errno}
	case f.Cause == "":
		return nil
	}
	return errors.New(f.Cause)
}

type errno struct {
	text   string
	number syscall.Errno
}

func (e errno) Error() string { return e.text }
func (e errno) Unwrap() error { return e.number }

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

// tokenSize is the size of the number that is sent with each descriptor.
const tokenSize = 8

// sendDescriptor sends a file's descriptor under a number.
func sendDescriptor(c *net.UnixConn, token uint64, f *os.File) error {
	_, _, err := c.WriteMsgUnix(binary.LittleEndian.AppendUint64(nil, token), unix.UnixRights(int(f.Fd())), nil)
	return err
}

// descriptors receives descriptors and keeps them until they are taken.
type descriptors struct {
	conn *net.UnixConn

	mu    sync.Mutex
	came  *sync.Cond
	files map[uint64]*os.File
	ended bool
}

func newDescriptors(c *net.UnixConn) *descriptors {
	d := &descriptors{conn: c, files: map[uint64]*os.File{}}
	d.came = sync.NewCond(&d.mu)
	return d
}

// receive runs until the other process ends.
func (d *descriptors) receive() {
	for {
		token, f, err := d.next()
		d.mu.Lock()
		if err != nil {
			d.ended = true
			for _, f := range d.files {
				f.Close()
			}
			d.mu.Unlock()
			d.came.Broadcast()
			return
		}
		d.files[token] = f
		d.mu.Unlock()
		d.came.Broadcast()
	}
}

func (d *descriptors) next() (uint64, *os.File, error) {
	message, rights := make([]byte, tokenSize), make([]byte, unix.CmsgSpace(4))
	n, oob, _, _, err := d.conn.ReadMsgUnix(message, rights)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err == nil {
		_, err = io.ReadFull(d.conn, message[n:])
	}
	if err != nil {
		return 0, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:oob])
	if err != nil || len(messages) != 1 {
		return 0, nil, errors.New("a message without a descriptor")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return 0, nil, errors.New("a message without a descriptor")
	}
	return binary.LittleEndian.Uint64(message), os.NewFile(uintptr(fds[0]), "vsock"), nil
}

// take waits for a descriptor and returns it as a connection.
func (d *descriptors) take(token uint64) (net.Conn, error) {
	d.mu.Lock()
	for d.files[token] == nil && !d.ended {
		d.came.Wait()
	}
	f := d.files[token]
	delete(d.files, token)
	ended := d.ended
	d.mu.Unlock()
	if ended {
		return nil, net.ErrClosed
	}
	defer f.Close()
	return net.FileConn(f)
}
