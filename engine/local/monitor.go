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

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// The monitor is this program, run again. It holds one command with everything that
// the command starts, sends it signals, kills what is left at the end, and reports how
// the command ended. Orders come through a pipe, one signal number each. When the pipe is
// closed, it kills everything, so that no command outlives the program that started it.
const (
	monitorName                               = "osaurus-local-monitor"
	monitorSpec, monitorOrders, monitorReport = 3, 4, 5 // descriptors
)

// report is a message of the monitor: that the command runs, why it does not, or how
// its first process ended.
type report struct {
	Started int          `json:"started,omitempty"` // pid
	Failed  *failure     `json:"failed,omitempty"`
	Ended   *engine.Exit `json:"ended,omitempty"`
}

// killAgain is how often a kill is repeated until nothing is left, because a process that was
// starting may have missed the first.
const killAgain = 20 * time.Millisecond

// Helper makes this process a helper of this package if it was started as one, and then does not
// return. A program that uses this package calls it first in main, a test in TestMain.
func Helper() {
	switch {
	case os.Args[0] == monitorName:
		runtime.LockOSThread() // see ward; and the child dies with the thread that made it
		ward()
	case os.Args[len(os.Args)-1] == childName:
		becomeCommand()
	}
}

// ward never returns.
func ward() {
	reports := json.NewEncoder(os.NewFile(monitorReport, "reports"))
	for _, fd := range []int{monitorSpec, monitorOrders, monitorReport} {
		unix.CloseOnExec(fd)
	}
	file := os.NewFile(monitorSpec, "spec")
	c, err := readSpec(file)
	pid := 0
	if err == nil {
		pid, err = startChild(c, file)
	}
	if err != nil {
		_ = reports.Encode(report{Failed: &failure{fault.KindOf(err), err.Error(), fault.AdviceOf(err)}})
		os.Exit(1)
	}
	_ = reports.Encode(report{Started: pid})
	signals, abandoned := make(chan syscall.Signal), new(atomic.Bool)
	go receive(os.NewFile(monitorOrders, "orders"), signals, abandoned)
	go reap(pid, reports, signals, func() {
		if abandoned.Load() {
			_ = os.RemoveAll(c.Scratch) // because the caller is gone
		}
		os.Exit(0)
	})
	// Signals are sent on this thread, which made the child: on Linux each thread of the
	// monitor has a domain of its own, and only this one's contains the command's.
	for sig := range signals {
		_ = signalAll(pid, sig)
	}
}

// receive forwards orders. It repeats SIGKILL until the monitor exits.
func receive(orders io.Reader, signals chan<- syscall.Signal, abandoned *atomic.Bool) {
	order := make([]byte, 1)
	for {
		if _, err := orders.Read(order); err != nil {
			abandoned.Store(true)
			killAll(signals)
		}
		if engine.Signal(order[0]) == engine.SIGKILL {
			killAll(signals)
		}
		for sig := range syscall.Signal(32) {
			if engine.HostSignal(sig) == engine.Signal(order[0]) {
				signals <- sig
			}
		}
	}
}

// killAll never returns. The monitor exits when nothing is left.
func killAll(signals chan<- syscall.Signal) {
	for {
		signals <- unix.SIGKILL
		time.Sleep(killAgain)
	}
}

// reap waits for the monitor's children, and calls leave when nothing of the command is left.
// What the first process leaves behind is killed after engine.Linger.
func reap(pid int, reports *json.Encoder, signals chan<- syscall.Signal, leave func()) {
	for {
		var status syscall.WaitStatus
		switch got, err := syscall.Wait4(-1, &status, 0, nil); {
		case err == syscall.EINTR:
		case err != nil: // there are no more children
			for !adopts && signalAll(pid, 0) == nil {
				time.Sleep(killAgain)
			}
			leave()
		case got == pid:
			exit := engine.Exit{Code: status.ExitStatus()}
			if status.Signaled() {
				exit = engine.Exit{Signal: engine.HostSignal(status.Signal())}
			}
			_ = reports.Encode(report{Ended: &exit})
			time.AfterFunc(engine.Linger, func() { killAll(signals) })
		}
	}
}

// startChild confines the monitor and starts the command. It returns when the
// command runs.
func startChild(c spec, file *os.File) (pid int, err error) {
	const op = "hold command"
	if err := holdAll(); err != nil {
		return 0, err
	}
	status, theirs, err := os.Pipe()
	if err != nil {
		return 0, fault.New(fault.Unavailable, op, "", err)
	}
	args, attr := childProgram(c)
	pid, err = syscall.ForkExec(args[0], args[1:], &syscall.ProcAttr{
		Env: []string{}, Files: []uintptr{0, 1, 2, file.Fd(), theirs.Fd()}, Sys: attr,
	})
	_ = theirs.Close()
	if err != nil {
		return 0, fault.New(fault.Unavailable, op, "", err)
	}
	// Close the command's streams, so that their other ends see when the command closes them.
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
