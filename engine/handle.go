package engine

import (
	"context"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
)

const (
	// signalLimit bounds the delivery of a signal to a room that cannot be reached.
	signalLimit = 10 * time.Second
	// killLimit is how long to wait for the end of a killed command. A process in
	// an uninterruptible wait can stay forever.
	killLimit = 10 * time.Second
)

// NewSandbox returns a Sandbox that starts commands with exec, which is
// Executor.Exec for a tenant.
func NewSandbox(exec func(ctx context.Context, cmd Command, tenant Tenant) (Process, error)) Sandbox {
	return sandbox{exec}
}

type sandbox struct {
	exec func(context.Context, Command, Tenant) (Process, error)
}

// Start implements Sandbox.
func (s sandbox) Start(ctx context.Context, req Request) (Handle, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fault.Wrap("start command", "", err)
	}
	h := &handle{out: NewBroadcast(req.MaxOutputBytes), ended: make(chan struct{})}
	cmd := Command{
		Args: req.Command.Args, Dir: req.WorkspaceRoot, ReadOnly: req.ReadOnly, Env: []string{}, Grace: CancelGrace,
		Stdout: h.out.Writer(Stdout), Stderr: h.out.Writer(Stderr),
	}
	if req.Command.Line != "" {
		cmd.Args = []string{"/bin/sh", "-c", req.Command.Line}
	}
	for _, name := range slices.Sorted(maps.Keys(req.Env)) {
		cmd.Env = append(cmd.Env, name+"="+req.Env[name])
	}
	if req.Stdin != nil {
		cmd.Stdin = &input{req.Stdin, h}
	}
	var life context.Context
	life, h.release = context.WithCancel(context.WithoutCancel(ctx))
	starting := context.AfterFunc(ctx, h.release)
	p, err := s.exec(life, cmd, req.Tenant)
	if !starting() && err == nil { // the end of life ends the command
		h.out.Close()
		<-p.Done()
		err = fault.Wrap("start command", "", ctx.Err())
	}
	if err != nil {
		h.release()
		h.end(ExitStatus{}, err)
		return nil, err
	}
	h.begin(p, req.Timeout)
	return h, nil
}

// handle implements Handle for a Process.
type handle struct {
	out     *Broadcast
	release context.CancelFunc
	ended   chan struct{}

	cancelOnce, closeOnce sync.Once
	signals               sync.WaitGroup

	mu       sync.Mutex
	process  Process // nil until begin
	done     bool
	timedOut bool
	failed   error // why it was killed, other than for its timeout
	timers   []*time.Timer
	exit     ExitStatus // after ended
	err      error      // after ended
}

// begin watches the started process.
func (h *handle) begin(p Process, timeout time.Duration) {
	h.mu.Lock()
	h.process = p
	failed := h.failed
	h.mu.Unlock()
	if failed != nil {
		h.kill()
	}
	if timeout > 0 {
		h.after(timeout, func() {
			h.mu.Lock()
			h.timedOut = true
			h.mu.Unlock()
			h.kill()
		})
	}
	go func() {
		exit, err := p.Wait()
		status := ExitStatus{Code: exit.Code}
		if err != nil {
			status.Code = NoCode
		} else if exit.Signal != 0 {
			status = ExitStatus{Code: NoCode, Signal: exit.Signal.Name(), Note: exit.Note()}
		}
		h.end(status, err)
	}()
}

// end records how the command ended. Only the first call counts.
func (h *handle) end(exit ExitStatus, err error) {
	h.mu.Lock()
	if h.done {
		h.mu.Unlock()
		return
	}
	h.done = true
	for _, timer := range h.timers {
		timer.Stop()
	}
	// A command that exits at the moment of its timeout keeps its exit code.
	exit.TimedOut = h.timedOut && exit.Code == NoCode
	exit.Truncated = h.out.Truncated()
	if h.failed != nil {
		err = h.failed
	}
	h.exit, h.err = exit, err
	h.mu.Unlock()
	h.out.Close()
	close(h.ended)
}

// input is a command's standard input. If reading fails, it kills the command,
// which must not take the part that was read for all of it.
type input struct {
	io.Reader
	handle *handle
}

func (in *input) Read(p []byte) (int, error) {
	n, err := in.Reader.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	h := in.handle
	h.mu.Lock()
	h.failed = fault.New(fault.Execution, "read the command's input", "", err)
	h.mu.Unlock()
	h.kill()
	<-h.ended
	return 0, err
}

func (h *handle) Output() *Reader { return h.out.Join() }

func (h *handle) Exit(ctx context.Context) (ExitStatus, error) {
	if notify.Closed(h.ended) { // a known exit is returned even if ctx has ended
		return h.exit, h.err
	}
	select {
	case <-h.ended:
		return h.exit, h.err
	case <-ctx.Done():
		return ExitStatus{}, contextFault("wait for the command", ctx)
	}
}

func (h *handle) Cancel() {
	h.cancelOnce.Do(func() {
		h.signal(SIGTERM)
		h.after(CancelGrace, h.kill)
	})
}

func (h *handle) Close() error {
	h.closeOnce.Do(func() {
		h.out.Close() // first: the command must not wait for readers
		h.kill()
		<-h.ended
		h.signals.Wait()
		h.release()
	})
	<-h.ended
	return nil
}

func (h *handle) kill() {
	h.signal(SIGKILL)
	h.after(killLimit, func() {
		h.end(ExitStatus{Code: NoCode}, fault.Newf(fault.Unavailable, "kill the command", "", "it does not end").
			Advise("See what it waits for. Its engine may have to be restarted."))
	})
}

// signal sends a signal without waiting for its delivery.
func (h *handle) signal(s Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done || h.process == nil {
		return
	}
	h.signals.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), signalLimit)
		defer cancel()
		_ = h.process.Signal(ctx, s) // fails if the command has ended, or its room is out of reach
	})
}

// after calls do after d, unless the command has ended.
func (h *handle) after(d time.Duration, do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.done {
		h.timers = append(h.timers, time.AfterFunc(d, do))
	}
}
