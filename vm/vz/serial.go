//go:build darwin || vzstandin

package vz

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/Code-Hex/vz/v3"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// lastWords is how long a machine's last output may take to arrive after its
// end: it is in the pipe already, unless macOS holds on to the other end.
const lastWords = time.Second

// serial is the guest's console: a pipe from the framework to the bounded log,
// and one to it that nobody writes to, since one at its end could be taken for
// a terminal that hung up.
type serial struct {
	log string

	output, input   *os.File // the guest writes, and reads
	fromGuest, idle *os.File // the other ends

	mu      sync.Mutex
	console *vm.Console   // nil before open
	copied  chan struct{} // closed when the output has ended
}

func newSerial(log string) (_ *serial, err error) {
	s := &serial{log: log}
	if s.fromGuest, s.output, err = os.Pipe(); err == nil {
		if s.input, s.idle, err = os.Pipe(); err != nil {
			s.fromGuest.Close()
			s.output.Close()
		}
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "open console", "", err).Advise("Close some programs, or raise the limit: ulimit -n 8192")
	}
	return s, nil
}

// attachment is the serial port. vz remembers the numbers of the descriptors
// and not the files: they must stay open as long as the machine runs.
func (s *serial) attachment() (*vz.FileHandleSerialPortAttachment, error) {
	return vz.NewFileHandleSerialPortAttachment(s.input, s.output)
}

// open begins the log.
func (s *serial) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := vm.OpenConsole(s.log)
	if err != nil {
		return err
	}
	s.console, s.copied = c, make(chan struct{})
	go func() {
		defer close(s.copied)
		_, _ = io.Copy(c, s.fromGuest) // ends when close wants it to
	}()
	return nil
}

// panicked is closed when the guest's kernel panics.
func (s *serial) panicked() <-chan struct{} { return s.console.Panicked() }

// report is what the kernel said when it panicked, or "".
func (s *serial) report() string {
	if s.console == nil {
		return ""
	}
	return s.console.Panic()
}

// tail is the end of what the guest said.
func (s *serial) tail() string { return s.console.Tail() }

// close closes the files, once all that the guest said is in the log. The
// machine must have ended.
func (s *serial) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.output.Close()
	s.input.Close()
	s.idle.Close()
	if s.console != nil {
		_ = s.fromGuest.SetReadDeadline(time.Now().Add(lastWords))
		<-s.copied
		_ = s.console.Close()
	}
	s.fromGuest.Close()
}
