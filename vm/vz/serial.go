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

// drainTimeout is how long to wait for the end of a console's output after its machine
// has ended, in case macOS keeps the pipe open.
const drainTimeout = time.Second

// serial is the guest's console. One pipe carries its output to the log. The other is
// its input, which is kept open without data: closed, it could look like a hang-up.
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
		return nil, fault.New(fault.Unavailable, "open console", "", err).Advise("Raise the limit of open files: ulimit -n 8192")
	}
	return s, nil
}

// attachment returns the serial port. vz only stores descriptor numbers, so the files
// must stay open while the machine runs.
func (s *serial) attachment() (*vz.FileHandleSerialPortAttachment, error) {
	return vz.NewFileHandleSerialPortAttachment(s.input, s.output)
}

// open starts the log.
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
		_, _ = io.Copy(c, s.fromGuest) // until close
	}()
	return nil
}

// panicked returns a channel that is closed when the guest's kernel panics.
func (s *serial) panicked() <-chan struct{} { return s.console.Panicked() }

// report returns the kernel's panic report, or "".
func (s *serial) report() string {
	if s.console == nil {
		return ""
	}
	return s.console.Panic()
}

// tail returns the end of the console.
func (s *serial) tail() string { return s.console.Tail() }

// close writes the rest of the output to the log and closes the files. The machine must
// have ended.
func (s *serial) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.output.Close()
	s.input.Close()
	s.idle.Close()
	if s.console != nil {
		_ = s.fromGuest.SetReadDeadline(time.Now().Add(drainTimeout))
		<-s.copied
		_ = s.console.Close()
	}
	s.fromGuest.Close()
}
