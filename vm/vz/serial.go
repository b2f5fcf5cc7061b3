//go:build darwin || vzstandin

package vz

import (
	"io"
	"os"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// drainTimeout is how long to wait for the end of a console's output after its machine
// has ended, in case macOS keeps the pipe open.
const drainTimeout = time.Second

// serial is the guest's console. One pipe carries its output to the log. The other is
// its input, which is kept open without data: closed, it could look like a hang-up.
type serial struct {
	console *vm.Console

	output, input   *os.File // the guest writes, and reads
	fromGuest, idle *os.File // the other ends

	copied chan struct{} // closed when the output has ended
}

func newSerial(log string) (*serial, error) {
	console, err := vm.OpenConsole(log)
	if err != nil {
		return nil, err
	}
	s := &serial{console: console, copied: make(chan struct{})}
	if s.fromGuest, s.output, err = os.Pipe(); err == nil {
		if s.input, s.idle, err = os.Pipe(); err != nil {
			s.fromGuest.Close()
			s.output.Close()
		}
	}
	if err != nil {
		console.Close()
		return nil, fault.New(fault.Unavailable, "open console", "", err).Advise("Raise the limit of open files: ulimit -n 8192")
	}
	go func() {
		defer close(s.copied)
		_, _ = io.Copy(console, s.fromGuest) // until close
	}()
	return s, nil
}

// close writes the rest of the output to the log and closes the files. The machine must
// have ended.
func (s *serial) close() {
	s.output.Close()
	s.input.Close()
	s.idle.Close()
	_ = s.fromGuest.SetReadDeadline(time.Now().Add(drainTimeout))
	<-s.copied
	_ = s.console.Close()
	s.fromGuest.Close()
}
