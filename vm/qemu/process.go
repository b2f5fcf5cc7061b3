//go:build linux

package qemu

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"osaurus-sandbox/vm"
)

const (
	// pipeGrace is how long QEMU's stderr may stay open after its end.
	pipeGrace = time.Second
	// firstInherited is the descriptor of the first of exec.Cmd.ExtraFiles.
	firstInherited = 3
)

// process is a running QEMU. The kernel kills it when this process ends.
type process struct {
	os     *os.Process
	exited chan struct{}
	err    error       // result of Wait; valid once exited is closed
	stderr *vm.Console // in memory only, since it is as untrusted as the guest's console
}

// startProcess starts QEMU, which inherits files from descriptor firstInherited on. Files may be
// nil. The caller closes them.
func startProcess(path string, args []string, files []*os.File) (*process, error) {
	stderr, err := vm.OpenConsole("")
	if err != nil {
		return nil, err
	}
	p := &process{exited: make(chan struct{}), stderr: stderr}
	cmd := exec.Command(path, args...)
	cmd.Env = environment()
	cmd.Dir = "/"
	cmd.ExtraFiles = files
	cmd.Stderr = p.stderr
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
		p.os = cmd.Process
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// environment is QEMU's environment. It contains no secrets that a guest could find after an
// escape.
func environment() []string { return []string{"LC_ALL=C"} }

// kill ends QEMU, even a stopped one. It returns false if QEMU has ended already.
func (p *process) kill() bool {
	select {
	case <-p.exited:
		return false
	default:
		_ = p.os.Kill() // fails only if QEMU has ended
		return true
	}
}

// cause returns the error with which QEMU ended, or nil. Call it after QEMU's end.
func (p *process) cause() error {
	if p.err == nil {
		return nil
	}
	if said := p.stderr.Tail(); said != "" {
		return fmt.Errorf("qemu: %w: %s", p.err, said)
	}
	return fmt.Errorf("qemu: %w", p.err)
}
