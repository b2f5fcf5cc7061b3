//go:build linux

package qemu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu/qmp"
)

const (
	// exitGrace bounds the wait for QEMU's exit status after it has hung up.
	exitGrace = 10 * time.Second
	// pipeGrace is how long QEMU's stderr may stay open after its end.
	pipeGrace = time.Second
	// firstInherited is the descriptor of the first of exec.Cmd.ExtraFiles.
	firstInherited = 3
)

// run is a running QEMU: its process, and our end of each connection.
type run struct {
	process *os.Process
	exited  chan struct{}
	err     error // of exec.Cmd.Wait; valid once exited is closed

	stderr  *vm.Console // in memory only, since it is as untrusted as the guest's console
	console *vm.Console
	serving sync.WaitGroup // connections
	control *qmp.Client    // nil until it is connected
}

// launch starts QEMU and serves its connections until it has ended.
func (m *machine) launch() (err error) {
	r := &run{exited: make(chan struct{})}
	var ours []*net.UnixConn
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close() // QEMU has its own
		}
		if err == nil {
			return
		}
		for _, c := range ours {
			c.Close()
		}
		if r.console != nil {
			r.console.Close()
		}
	}()
	for range 2 + len(m.backends) { // in the order that arguments expects
		c, f, err := vm.SocketPair()
		if err != nil {
			return err
		}
		ours, theirs = append(ours, c), append(theirs, f)
	}
	if r.console, err = vm.OpenConsole(m.cfg.ConsoleLog); err != nil {
		return err
	}
	if err := r.start(m.program, arguments(&m.cfg, m.accel, m.backends), append(theirs, m.cfg.NIC)); err != nil {
		return err
	}
	m.run = r
	control, console, devices := ours[0], ours[1], ours[2:]
	r.serving.Go(func() { m.talk(control) })
	r.serving.Go(func() {
		defer console.Close()
		_, _ = io.Copy(r.console, console) // ends with QEMU
	})
	ctx, hangUp := context.WithCancel(context.Background())
	for i, b := range m.backends {
		r.serving.Go(func() { b.serve(ctx, devices[i], m.log) })
	}
	go func() {
		<-r.exited
		m.Ending()
		hangUp()         // a device that waits for a hanging request may not notice QEMU's end
		r.serving.Wait() // for what QEMU has left in the sockets
		_ = r.console.Close()
		m.End(m.outcome)
	}()
	return nil
}

// start starts QEMU, which inherits files from descriptor firstInherited on. Files may be nil. The
// kernel kills it when this process ends.
func (r *run) start(path string, args []string, files []*os.File) (err error) {
	if r.stderr, err = vm.OpenConsole(""); err != nil {
		return err
	}
	cmd := exec.Command(path, args...)
	cmd.Env = environment()
	cmd.Dir = "/"
	cmd.ExtraFiles = files
	cmd.Stderr = r.stderr
	cmd.WaitDelay = pipeGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true, // keeps Ctrl-C in the terminal from QEMU
	}
	started := make(chan error)
	go func() {
		// The kernel kills QEMU when the thread that started it ends, so this goroutine keeps its
		// thread until QEMU has ended.
		runtime.LockOSThread()
		err := cmd.Start()
		r.process = cmd.Process
		started <- err
		if err == nil {
			if r.err = cmd.Wait(); errors.Is(r.err, exec.ErrWaitDelay) {
				r.err = nil // it ended well, and some of its stderr may be lost
			}
			close(r.exited)
		}
	}()
	return <-started
}

// environment is QEMU's environment. It contains no secrets that a guest could find after an
// escape.
func environment() []string { return []string{"LC_ALL=C"} }

// talk makes the control connection and returns when it has ended.
func (m *machine) talk(conn net.Conn) {
	control, err := qmp.Connect(context.Background(), conn, m.event)
	if err != nil {
		select {
		case <-m.run.exited: // its exit status explains the failure
		case <-time.After(exitGrace):
			m.Fail(fault.Wrap("start machine", m.cfg.Name, err))
		}
		return
	}
	m.run.control = control
	m.Started()
	<-control.Done()
	_ = control.Close()
}

// kill ends QEMU, even a stopped one. It returns false if QEMU has ended already.
func (r *run) kill() bool {
	if notify.Closed(r.exited) {
		return false
	}
	_ = r.process.Kill() // fails only if QEMU has ended
	return true
}

// cause returns the error with which QEMU ended, or nil. Call it after QEMU's end.
func (r *run) cause() error {
	if r.err == nil {
		return nil
	}
	return fmt.Errorf("qemu: %w: %s", r.err, cmp.Or(r.stderr.Tail(), "it said nothing"))
}
