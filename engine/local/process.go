package local

import (
	"cmp"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// process is a command, seen from the program that started it. It implements engine.Process.
type process struct {
	monitor  *exec.Cmd
	reports  *os.File // from the monitor
	pid      int
	timedOut atomic.Bool
	done     chan struct{}
	exit     engine.Exit // after done
	err      error       // after done

	mu     sync.Mutex
	orders *os.File // to the monitor; nil after the end
}

// start runs a command in a child and returns when it runs.
func start(ctx context.Context, cmd engine.Command, c spec) (*process, error) {
	const op = "start command"
	unavailable := func(err error) error {
		return fault.New(fault.Unavailable, op, "", err).Advise("Run fewer commands at once, or allow more open files.")
	}
	file, err := describe(c)
	if err != nil {
		return nil, unavailable(err)
	}
	defer file.Close()
	theirOrders, orders, err := os.Pipe()
	if err != nil {
		return nil, unavailable(err)
	}
	defer theirOrders.Close()
	reports, theirReports, err := os.Pipe()
	if err != nil {
		_ = orders.Close()
		return nil, unavailable(err)
	}
	p := &process{reports: reports, orders: orders, done: make(chan struct{})}
	p.monitor = &exec.Cmd{
		Path: selfProgram(), Args: []string{monitorName}, Env: []string{}, Dir: "/",
		Stdout: cmd.Stdout, Stderr: cmd.Stderr,
		ExtraFiles:  []*os.File{file, theirOrders, theirReports},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	var input io.WriteCloser
	if cmd.Stdin != nil {
		input, err = p.monitor.StdinPipe()
	}
	if err == nil {
		err = p.monitor.Start()
	}
	_ = theirReports.Close() // so that the end of the reports is seen
	if err != nil {
		p.closeFiles()
		return nil, unavailable(err)
	}
	decoder := json.NewDecoder(reports)
	if err := p.started(ctx, decoder); err != nil {
		p.order(engine.SIGKILL)
		_ = p.monitor.Wait()
		p.closeFiles()
		return nil, err
	}
	if input != nil {
		go func() { // nothing waits for it, because reading may hang
			_, _ = io.Copy(input, cmd.Stdin)
			_ = input.Close()
		}()
	}
	grace := cmp.Or(cmd.Grace, defaultGrace)
	stop := []func() bool{context.AfterFunc(ctx, func() { p.terminate(grace) })}
	if cmd.Timeout > 0 {
		stop = append(stop, time.AfterFunc(cmd.Timeout, func() {
			p.timedOut.Store(true)
			p.terminate(grace)
		}).Stop)
	}
	go func() {
		defer close(p.done)
		p.follow(decoder)
		for _, stop := range stop {
			stop()
		}
		_ = os.RemoveAll(c.Scratch)
	}()
	return p, nil
}

// defaultGrace is the time between SIGTERM and SIGKILL if Command.Grace is 0.
const defaultGrace = 5 * time.Second

// describe writes a spec to an unlinked file.
func describe(c spec) (*os.File, error) {
	f, err := os.CreateTemp(c.Scratch, "spec-")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Remove(f.Name()), gob.NewEncoder(f).Encode(c)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// started waits until the monitor says that the command runs.
func (p *process) started(ctx context.Context, reports *json.Decoder) error {
	const op = "start command"
	stop := context.AfterFunc(ctx, func() { _ = p.reports.SetReadDeadline(time.Now()) })
	defer stop()
	var r report
	switch err := reports.Decode(&r); {
	case err == nil && r.Started != 0 && stop(): // else reading the next report would fail
		p.pid = r.Started
		return nil
	case err == nil && r.Failed != nil:
		return r.Failed.fault()
	case ctx.Err() != nil:
		return fault.New(fault.KindOf(ctx.Err()), op, "", context.Cause(ctx))
	case err == nil, errors.Is(err, io.EOF):
		return withoutHelper(op)
	default:
		return fault.New(fault.Unavailable, op, "", err)
	}
}

// follow waits for the command's end. The monitor ends when nothing of the command is left.
func (p *process) follow(reports *json.Decoder) {
	var r report
	err := reports.Decode(&r)
	waited := p.monitor.Wait()
	p.closeFiles()
	switch {
	case err != nil || r.Ended == nil:
		p.err = fault.Newf(fault.Unavailable, engine.OpRun, "", "its monitor process is gone (%v)", err)
	case waited != nil:
		p.err = fault.New(fault.Execution, engine.OpRun, "", waited)
	default:
		p.exit = *r.Ended
		p.exit.TimedOut = p.timedOut.Load()
	}
}

// terminate sends SIGTERM, and SIGKILL after the grace period.
func (p *process) terminate(grace time.Duration) {
	p.order(engine.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		p.order(engine.SIGKILL)
	}
}

// order makes the monitor send a signal. It does not block, because the pipe holds more bytes than
// are ever written.
func (p *process) order(s engine.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.orders == nil {
		return fault.Newf(fault.NotFound, "send "+s.String(), "", "the command has ended")
	}
	_, _ = p.orders.Write([]byte{byte(s)}) // fails when the monitor has ended
	return nil
}

func (p *process) closeFiles() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.orders.Close()
	_ = p.reports.Close()
	p.orders = nil
}

// PID implements engine.Process.
func (p *process) PID() int { return p.pid }

// Resize implements engine.Process. Commands have no terminal.
func (p *process) Resize(engine.TerminalSize) error { return nil }

// Signal implements engine.Process.
func (p *process) Signal(_ context.Context, s engine.Signal) error { return p.order(s) }

// Done implements engine.Process.
func (p *process) Done() <-chan struct{} { return p.done }

// Wait implements engine.Process.
func (p *process) Wait() (engine.Exit, error) {
	<-p.done
	return p.exit, p.err
}
