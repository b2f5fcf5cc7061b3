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
	// pipeGrace is how long after QEMU's end its error output may stay open.
	pipeGrace = time.Second
	// firstInherited is the number of the first of exec.Cmd.ExtraFiles.
	firstInherited = 3
)

// process is a running QEMU. It dies with this process, however this one ends.
type process struct {
	os     *os.Process
	exited chan struct{}
	err    error       // of Wait, once exited is closed
	stderr *vm.Console // in memory only: no less hostile than the guest's
}

// startProcess starts QEMU with the given files inherited, from descriptor
// firstInherited on. The files are the caller's to close.
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
		Setpgid:   true, // a Ctrl-C in the terminal is not for QEMU
	}
	started := make(chan error)
	go func() {
		// The kernel kills QEMU when the thread that started it ends, so this
		// one must live as long. It is not unlocked: it ends with QEMU.
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

// environment is all that QEMU gets to know of ours: a guest that broke out of
// it would find no keys there.
func environment() []string { return []string{"LC_ALL=C"} }

// kill ends QEMU, even a stopped one.
func (p *process) kill() { _ = p.os.Kill() } // it fails only if QEMU has ended

// cause says how QEMU ended, once it has: nil if it meant to.
func (p *process) cause() error {
	if p.err == nil {
		return nil
	}
	if said := p.stderr.Tail(); said != "" {
		return fmt.Errorf("qemu: %w: %s", p.err, said)
	}
	return fmt.Errorf("qemu: %w", p.err)
}
