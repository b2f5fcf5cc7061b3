package engine

import (
	"context"
	"io"
	"maps"
	"slices"
	"time"

	"osaurus-sandbox/internal/fault"
)

// signalLimit bounds the delivery of a signal to a room that cannot be reached.
const signalLimit = 10 * time.Second

// NewSandbox returns a Sandbox whose commands are started by exec, which is
// Room.Exec for a tenant.
func NewSandbox(exec func(ctx context.Context, cmd Command, tenant Tenant) (Process, error)) Sandbox {
	return roomSandbox{exec}
}

type roomSandbox struct {
	exec func(context.Context, Command, Tenant) (Process, error)
}

// Start implements Sandbox.
func (r roomSandbox) Start(ctx context.Context, req Request) (Handle, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fault.Wrap("start command", "", err)
	}
	cmd := Command{
		Args: req.Command.Args, Dir: req.WorkspaceRoot, ReadOnly: req.ReadOnly,
		Env: []string{}, Grace: CancelGrace,
	}
	if req.Command.Line != "" {
		cmd.Args = []string{"/bin/sh", "-c", req.Command.Line}
	}
	for _, name := range slices.Sorted(maps.Keys(req.Env)) {
		cmd.Env = append(cmd.Env, name+"="+req.Env[name])
	}
	out, errs := newLate(), newLate()
	cmd.Stdout, cmd.Stderr = out, errs
	var input *io.PipeWriter
	if req.Stdin != nil {
		cmd.Stdin, input = io.Pipe()
	}

	life, end := context.WithCancel(context.WithoutCancel(ctx))
	starting := context.AfterFunc(ctx, end)
	p, err := r.exec(life, cmd, req.Tenant)
	if !starting() && err == nil {
		// Its context has ended the command, which may have written before.
		out.set(io.Discard)
		errs.set(io.Discard)
		if input != nil {
			_ = input.Close()
		}
		<-p.Done()
		err = fault.Wrap("start command", "", ctx.Err())
	}
	if err != nil {
		end()
		return nil, err
	}
	live := NewLive(req, &roomMeans{Process: p, end: end})
	out.set(live.Stdout())
	errs.set(live.Stderr())
	if input != nil {
		live.Feed(input)
	}
	go func() {
		exit, err := p.Wait()
		live.End(exitFor(exit), err)
	}()
	return live, nil
}

// late is a writer whose destination is set later. Write waits for it.
type late struct {
	to    io.Writer
	ready chan struct{}
}

func newLate() *late { return &late{ready: make(chan struct{})} }

func (l *late) set(to io.Writer) {
	l.to = to
	close(l.ready)
}

func (l *late) Write(p []byte) (int, error) {
	<-l.ready
	return l.to.Write(p)
}

// roomMeans signals a command in a room.
type roomMeans struct {
	Process
	end context.CancelFunc
}

func (m *roomMeans) Terminate() { m.signal(SIGTERM) }
func (m *roomMeans) Kill()      { m.signal(SIGKILL) }

func (m *roomMeans) signal(s Signal) {
	ctx, cancel := context.WithTimeout(context.Background(), signalLimit)
	defer cancel()
	// It fails if the command has ended, or its room is out of reach.
	_ = m.Signal(ctx, s)
}

func (m *roomMeans) Release() error {
	m.end()
	return nil
}

// exitFor converts an exit to that of a Handle.
func exitFor(e Exit) ExitStatus {
	if e.Signal == 0 {
		return ExitStatus{Code: e.Code}
	}
	return ExitStatus{Code: NoCode, Signal: e.Signal.Name(), Note: e.Note()}
}
