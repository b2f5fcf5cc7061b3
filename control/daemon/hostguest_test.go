package daemon_test

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/supervisor"
	"osaurus-sandbox/supervisor/journey"
	"osaurus-sandbox/supervisor/provision"
	"osaurus-sandbox/vm/image/progress"
)

// hostBackend is a fake: its guest is this host, so that the API can be tried
// without a boot.
type hostBackend struct {
	broken error // what a boot fails with
	stuck  bool  // a boot has no end
}

func (*hostBackend) Check(context.Context) (string, error) { return "none", nil }
func (*hostBackend) Provisioned() bool                     { return true }
func (*hostBackend) Ready(config.Settings) bool            { return true }
func (*hostBackend) Reset(context.Context) error           { return nil }
func (*hostBackend) Remove(context.Context) error          { return nil }

func (*hostBackend) Prepare(_ context.Context, _ config.Settings, _ bool, walk *journey.Walk) error {
	return walk.Do(journey.Pack, func(report progress.Func) error { report.Note("the pack is no pack"); return nil })
}

func (b *hostBackend) Boot(ctx context.Context, _ config.Settings, walk *journey.Walk) (supervisor.Guest, provision.Machine, error) {
	err := walk.Do(journey.Boot, func(progress.Func) error {
		if b.stuck {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return b.broken
	})
	if err != nil {
		return nil, provision.Machine{}, err
	}
	return &hostGuest{done: make(chan struct{})}, provision.Machine{Pack: "none", CPUs: 1}, nil
}

type hostGuest struct {
	done chan struct{}
	once sync.Once
}

func (*hostGuest) Ping(context.Context) error { return nil }
func (*hostGuest) Info(context.Context) (guest.Info, error) {
	return guest.Info{Kernel: "fake", Time: time.Now(), HasData: true}, nil
}
func (g *hostGuest) Shutdown(context.Context) error { return g.Close() }
func (g *hostGuest) Close() error                   { g.once.Do(func() { close(g.done) }); return nil }
func (g *hostGuest) Done() <-chan struct{}          { return g.done }
func (*hostGuest) Err() error                       { return nil }

func (g *hostGuest) Exec(ctx context.Context, c guest.Command) (supervisor.Process, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Env, c.Dir, nil, c.Stdout, c.Stderr
	if c.Stdin != nil { // as in the guest, input that nobody reads holds up no end
		stdin, err := cmd.StdinPipe()
		if err != nil {
			cancel()
			return nil, err
		}
		go func() {
			_, _ = io.Copy(stdin, c.Stdin)
			_ = stdin.Close()
		}()
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fault.New(fault.NotFound, "run command", c.Args[0], err).Advise("Install it.")
	}
	p := &hostProcess{cmd: cmd, done: make(chan struct{})}
	go func() { // a guest that ends takes all with it
		select {
		case <-g.done:
		case <-p.done:
		}
		cancel()
	}()
	go func() {
		defer close(p.done)
		err := cmd.Wait()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
			p.exit.Signal = guest.HostSignal(status.Signal())
		} else {
			p.exit.Code = status.ExitStatus()
		}
		if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit {
			p.err = err
		}
	}()
	return p, nil
}

type hostProcess struct {
	cmd  *exec.Cmd
	done chan struct{}
	exit guest.Exit
	err  error
}

func (p *hostProcess) PID() int                  { return p.cmd.Process.Pid }
func (p *hostProcess) Done() <-chan struct{}     { return p.done }
func (p *hostProcess) Wait() (guest.Exit, error) { <-p.done; return p.exit, p.err }
func (p *hostProcess) Signal(_ context.Context, s guest.Signal) error {
	return p.cmd.Process.Signal(syscall.Signal(s))
}
