package local

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// The warden is this program run again. It holds one command with all that it
// starts, kills it when it is told to, and says how it ended. Orders come through
// a pipe, at whose end it kills all: a command does not outlive the program that
// wanted it.
const (
	wardenName                             = "osaurus-local-warden"
	wardenSpec, wardenOrders, wardenReport = 3, 4, 5 // descriptors
)

// Orders to the warden.
const (
	orderTerminate = 'T'
	orderKill      = 'K'
)

// report is what the warden says: that the command runs, why it does not, or how
// its first process ended.
type report struct {
	Started bool     `json:"started,omitempty"`
	Failed  *failure `json:"failed,omitempty"`
	Ended   *ended   `json:"ended,omitempty"`
}

type ended struct {
	Code   int    `json:"code"`
	Signal string `json:"signal,omitempty"`
}

// killAgain is how often a kill is repeated until nothing is left. One is enough,
// but for what was not yet in its domain.
const killAgain = 20 * time.Millisecond

// Helper makes this process a helper of the sandbox, if it was started as one,
// and then does not return. A program that uses this package calls it first thing
// in main, a test in TestMain.
func Helper() {
	switch {
	case os.Args[0] == wardenName:
		runtime.LockOSThread() // see obey; and the cell dies with the thread that made it
		ward()
	case os.Args[len(os.Args)-1] == cellName:
		becomeCommand()
	}
}

// ward never returns.
func ward() {
	reports := json.NewEncoder(os.NewFile(wardenReport, "reports"))
	for _, fd := range []int{wardenSpec, wardenOrders, wardenReport} {
		unix.CloseOnExec(fd)
	}
	c, err := readCell(wardenSpec)
	pid := 0
	if err == nil {
		pid, err = startCell(c)
	}
	if err != nil {
		_ = reports.Encode(report{Failed: &failure{fault.KindOf(err), err.Error(), fault.AdviceOf(err)}})
		os.Exit(1)
	}
	_ = reports.Encode(report{Started: true})
	var abandoned atomic.Bool
	leave := func() {
		if abandoned.Load() {
			_ = os.RemoveAll(c.Scratch) // nobody else will
		}
		os.Exit(0)
	}
	go reap(pid, reports, leave)
	obey(pid, os.NewFile(wardenOrders, "orders"), &abandoned, leave)
}

// reap waits for all of the warden's children, and ends it when nothing is left
// where that means that nothing is left of the command.
func reap(pid int, reports *json.Encoder, leave func()) {
	for {
		var status syscall.WaitStatus
		switch got, err := syscall.Wait4(-1, &status, 0, nil); {
		case err == syscall.EINTR:
		case err != nil && adopts:
			leave()
		case err != nil:
			return
		case got == pid:
			_ = reports.Encode(report{Ended: endOf(status)})
		}
	}
}

// obey never returns. It must run on the thread that made the cell: on Linux each
// thread of the warden has a domain of its own, and only this one's is above the
// command's.
func obey(pid int, orders io.Reader, abandoned *atomic.Bool, leave func()) {
	order := make([]byte, 1)
	for {
		_, err := orders.Read(order)
		abandoned.Store(err != nil)
		if err != nil || order[0] == orderKill {
			break
		}
		_ = signalAll(pid, unix.SIGTERM)
	}
	for {
		if err := signalAll(pid, unix.SIGKILL); err != nil && !adopts {
			leave()
		}
		time.Sleep(killAgain)
	}
}

// startCell confines the warden and starts the command. It returns when the
// command runs.
func startCell(c cell) (pid int, err error) {
	const op = "hold command"
	if err := holdAll(); err != nil {
		return 0, err
	}
	status, theirs, err := os.Pipe()
	if err != nil {
		return 0, fault.New(fault.Unavailable, op, "", err)
	}
	args, attr := cellProgram(c)
	pid, err = syscall.ForkExec(args[0], args[1:], &syscall.ProcAttr{
		Env: []string{}, Files: []uintptr{0, 1, 2, wardenSpec, theirs.Fd()}, Sys: attr,
	})
	_ = theirs.Close()
	if err != nil {
		return 0, fault.New(fault.Unavailable, op, "", err)
	}
	// The command's own streams are the command's alone: their ends are seen by
	// who reads them.
	for fd := range 3 {
		_ = unix.Close(fd)
	}
	said := json.NewDecoder(status)
	var f failure
	switch err := said.Decode(&f); {
	case errors.Is(err, io.EOF):
		return pid, nil
	case err != nil:
		return 0, fault.New(fault.Execution, op, "", err)
	}
	return 0, f.fault()
}

func endOf(status syscall.WaitStatus) *ended {
	if status.Signaled() {
		return &ended{Signal: signalName(status.Signal())}
	}
	return &ended{Code: status.ExitStatus()}
}
