// Package child runs each machine of a driver in a process of its own, so that an exception in the
// driver's framework ends one machine and not the daemon.
//
// The parent sends each request with a socket of its own. The child answers there, and sends
// connections as descriptors. A request ends when either closes its socket. The machine ends
// with its parent.
package child

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// What the child inherits: a socket of requests, and the machine's NIC if it has one.
const (
	requestsFD = 3 + iota
	nicFD
)

// maxMessage bounds a message in bytes. The longest is a failure that quotes the console.
const maxMessage = 1 << 20

// What the parent asks for.
const (
	doNew    = "new"
	doRun    = "run" // answers tell of each change until the machine ends
	doButton = "press button"
	doDial   = "dial"
	doListen = "listen" // answers bring connections until the request ends
)

type request struct {
	Do     string
	Config *vm.Config // of doNew; its NIC only says whether there is one
	Port   uint32     // of doDial and doListen
}

type answer struct {
	Failure  *failure
	State    vm.State
	Warnings []string // all of them
	Over     bool     // the machine has ended
	// HostPort and GuestPort are those of the connection that comes with the answer.
	HostPort, GuestPort uint32
}

// failure carries an error with its kind and advice. Of wrapped errors it keeps only the number of a
// system call's.
type failure struct {
	Kind                      fault.Kind
	Op, Subject, Text, Advice string
	Errno                     syscall.Errno
}

func newFailure(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Kind: fault.KindOf(err), Text: err.Error(), Advice: fault.AdviceOf(err)}
	if e, ok := err.(*fault.Error); ok && e.Err != nil {
		f.Op, f.Subject, f.Text = e.Op, e.Subject, e.Err.Error()
	}
	_ = errors.As(err, &f.Errno)
	return f
}

func (f *failure) err() error {
	if f == nil {
		return nil
	}
	err := errors.New(f.Text)
	if f.Errno != 0 {
		err = systemError{f.Text, f.Errno}
	}
	return fault.New(f.Kind, f.Op, f.Subject, err).Advise(f.Advice)
}

// systemError is an error of a system call of the other process.
type systemError struct {
	text string
	syscall.Errno
}

func (e systemError) Error() string { return e.text }
func (e systemError) Unwrap() error { return e.Errno }

// send sends a message, and a descriptor with it unless that is nil.
func send(to *net.UnixConn, message any, with *os.File) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	var rights []byte
	if with != nil {
		rights = unix.UnixRights(int(with.Fd()))
	}
	if _, _, err = to.WriteMsgUnix(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), rights, nil); err != nil {
		return err
	}
	_, err = to.Write(text)
	return err
}

// receive receives a message, and the socket that came with it, or nil.
func receive(from *net.UnixConn, message any) (_ *net.UnixConn, err error) {
	var size [4]byte
	rights := make([]byte, unix.CmsgSpace(4))
	n, oob, _, _, err := from.ReadMsgUnix(size[:], rights)
	if err != nil || n == 0 {
		return nil, errors.Join(err, io.EOF)
	}
	socket, err := socketOf(rights[:oob])
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && socket != nil {
			socket.Close()
		}
	}()
	if _, err := io.ReadFull(from, size[n:]); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32(size[:])
	if length > maxMessage {
		return nil, fmt.Errorf("a message of %d bytes", length)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(from, text); err != nil {
		return nil, err
	}
	return socket, json.Unmarshal(text, message)
}

// socketOf returns the socket in a control message, or nil.
func socketOf(rights []byte) (*net.UnixConn, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) == 0 {
		return nil, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(errors.New("not one descriptor"), err)
	}
	return vm.SocketOf(fds[0])
}
