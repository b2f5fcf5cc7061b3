package guest

import (
	"context"
	"io"
	"maps"
	"slices"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// signalLimit is how long a signal may be under way to a command. What it is to
// end may be out of reach for longer, but then nobody waits for the signal.
const signalLimit = 10 * time.Second

// NewSandbox is the execution SPI over whoever starts commands in a room. The
// context of start is that of the whole command.
func NewSandbox(start func(ctx context.Context, cmd engine.Command, tenant engine.Tenant) (engine.Process, error)) engine.Sandbox {
	return rooms{start}
}

type rooms struct {
	start func(context.Context, engine.Command, engine.Tenant) (engine.Process, error)
}

// Start implements sandbox.Sandbox.
func (r rooms) Start(ctx context.Context, req engine.Request) (engine.Handle, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fault.Wrap("start command", "", err)
	}
	cmd := engine.Command{
		Args: req.Command.Args, Dir: req.WorkspaceRoot, ReadOnly: req.ReadOnly,
		Env: []string{}, Grace: engine.CancelGrace,
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
	p, err := r.start(life, cmd, req.Tenant)
	if !starting() && err == nil {
		// Its context has ended it, but it may have written before.
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
	live := engine.NewLive(req, &means{Process: p, end: end})
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

// late is a writer that is there before what it writes to.
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

// means ends a command in a room. What it leaves behind when its first process
// has ended, the guest ends.
type means struct {
	engine.Process
	end context.CancelFunc
}

func (m *means) Terminate() { m.signal(engine.SIGTERM) }
func (m *means) Kill()      { m.signal(engine.SIGKILL) }

func (m *means) signal(s engine.Signal) {
	ctx, cancel := context.WithTimeout(context.Background(), signalLimit)
	defer cancel()
	// One that has ended has no use for it, and one that is out of reach ends
	// with its guest.
	_ = m.Signal(ctx, s)
}

func (m *means) Release() error {
	m.end()
	return nil
}

// exitFor is an exit in the words of the SPI.
func exitFor(e engine.Exit) engine.ExitStatus {
	if e.Signal == 0 {
		return engine.ExitStatus{Code: e.Code}
	}
	return engine.ExitStatus{Code: engine.NoCode, Signal: e.Signal.Name(), Note: e.Note()}
}
