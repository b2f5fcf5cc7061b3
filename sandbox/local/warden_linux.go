package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/fault"
)

// The warden is this program run again. It holds one command in a Landlock
// domain of its own, from which no signal leads out: so kill(-1) in it is a kill
// of the command's processes and no others, all at once, however they are
// detached, and without root. The command is in a domain below it, from which no
// signal reaches the warden.
//
// It is the reaper of whatever the command leaves behind, so it knows when
// nothing is left. Orders come through a pipe, at whose end it kills all: a
// command does not outlive the program that wanted it.
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
	switch os.Args[0] {
	case wardenName:
		runtime.LockOSThread() // see obey; and the cell dies with the thread that made it
		ward()
	case cellName:
		becomeCommand()
	}
}

// ward never returns.
func ward() {
	reports := json.NewEncoder(os.NewFile(wardenReport, "reports"))
	for _, fd := range []int{wardenSpec, wardenOrders, wardenReport} {
		unix.CloseOnExec(fd)
	}
	pid, err := startCell()
	if err != nil {
		_ = reports.Encode(report{Failed: &failure{fault.KindOf(err), err.Error(), fault.AdviceOf(err)}})
		os.Exit(1)
	}
	_ = reports.Encode(report{Started: true})
	go reap(pid, reports)
	obey(os.NewFile(wardenOrders, "orders"))
}

// reap waits for all that the command starts, and ends the warden when nothing is
// left.
func reap(pid int, reports *json.Encoder) {
	for {
		var status syscall.WaitStatus
		switch got, err := syscall.Wait4(-1, &status, 0, nil); {
		case err == syscall.EINTR:
		case err != nil:
			os.Exit(0)
		case got == pid:
			_ = reports.Encode(report{Ended: endOf(status)})
		}
	}
}

// obey never returns: the warden ends when reap says so. It must run on the thread that made the cell: each
// thread of the warden has a domain of its own, and only this one's is above the
// command's.
func obey(orders io.Reader) {
	order := make([]byte, 1)
	for {
		_, err := orders.Read(order)
		if err != nil || order[0] == orderKill {
			break
		}
		_ = unix.Kill(-1, unix.SIGTERM)
	}
	for {
		_ = unix.Kill(-1, unix.SIGKILL)
		time.Sleep(killAgain)
	}
}

// startCell confines the warden and starts the command. It returns when the
// command runs.
func startCell() (pid int, err error) {
	const op = "hold command"
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fault.New(fault.Unavailable, op, "", err)
	}
	if err := restrictSignals(); err != nil {
		return 0, err
	}
	// kill(-1) without a domain would end everything of the user's. So it is seen
	// that signals do not get out, not believed.
	if err := unix.Kill(os.Getppid(), 0); err != unix.EPERM {
		return 0, fault.New(fault.Unavailable, op, "", fmt.Errorf("a signal gets out of its Landlock domain (%v)", err)).Advise(oldKernel)
	}
	status := make([]int, 2)
	if err := unix.Pipe2(status, unix.O_CLOEXEC); err != nil {
		return 0, fault.New(fault.Unavailable, op, "", err)
	}
	pid, err = syscall.ForkExec("/proc/self/exe", []string{cellName}, &syscall.ProcAttr{
		Env:   []string{},
		Files: []uintptr{0, 1, 2, wardenSpec, uintptr(status[1])},
		Sys:   &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL},
	})
	_ = unix.Close(status[1])
	if err != nil {
		return 0, fault.New(fault.Unavailable, op, "", err)
	}
	// The command's own streams are the command's alone: their ends are seen by
	// who reads them.
	for fd := range 3 {
		_ = unix.Close(fd)
	}
	said := json.NewDecoder(os.NewFile(uintptr(status[0]), "status"))
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
