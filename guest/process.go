package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"connectrpc.com/connect"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/internal/wire"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc"
	"osaurus-sandbox/internal/printable"
)

// DefaultEnv is the environment of a command that was given none.
func DefaultEnv() []string { return wire.RootEnvironment() }

// Process is a command that has been started.
type Process struct {
	client  *Client
	cmd     engine.Command
	name    string
	id      uint64
	pid     int
	answers answers
	input   *inputStream // nil: it takes none
	sending sync.Mutex
	release func() // gives back what the answers came over
	cancel  context.CancelFunc
	done    chan struct{}
	exit    engine.Exit // after done
	err     error       // after done
}

// answers are what the guest says of a command.
type answers interface {
	Receive() (*guestpb.ExecResponse, error)
}

type inputStream = connect.BidiStreamForClientSimple[guestpb.ExecRequest, guestpb.ExecResponse]

// Exec starts a command and returns when it runs. Cancelling the context ends
// it and everything that it started (SIGTERM, then SIGKILL after its grace).
// When its first process ends, what else it left running is ended too.
//
// It fails with NotFound if there is no such program or directory, Rejected
// if the program may not be executed or too many commands run at once, and
// InvalidArgs if the command is malformed.
func (c *Client) Exec(ctx context.Context, cmd engine.Command) (*Process, error) {
	start := startOf(cmd)
	if err := wire.CheckStart(start); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Process{client: c, cmd: cmd, name: printable.Clip(cmd.Args[0]), cancel: cancel, release: func() {}, done: make(chan struct{})}
	send := p.onLine
	if cmd.Stdin != nil || cmd.Terminal != nil {
		send = p.onStream
	}
	err := send(ctx, start)
	if err == nil {
		err = p.begun()
	}
	if err != nil {
		err = wire.Decode(engine.OpRun, p.name, streamEnd(ctx, err))
		p.release()
		cancel()
		return nil, err
	}
	if p.input != nil {
		// The transport looks at the context only when the request has ended.
		context.AfterFunc(ctx, func() { _ = p.input.CloseRequest() })
	}
	if cmd.Stdin != nil {
		go p.feed()
	}
	go p.follow(ctx)
	return p, nil
}

// onStream sends a command that takes input.
func (p *Process) onStream(ctx context.Context, start *guestpb.Start) error {
	stream, err := p.client.rpc.Exec(ctx)
	if err != nil {
		return err
	}
	p.input, p.answers = stream, stream
	err = stream.Send(&guestpb.ExecRequest{What: &guestpb.ExecRequest_Start{Start: start}})
	if errors.Is(err, io.EOF) {
		return nil // Receive has the reason
	}
	return err
}

// onLine sends a command that takes none. When its context ends, the line does, and with that
// the command.
func (p *Process) onLine(ctx context.Context, start *guestpb.Start) error {
	l, err := p.client.lines.take(ctx)
	if err != nil {
		return err
	}
	p.answers = l
	goOn := context.AfterFunc(ctx, func() { _ = l.conn.Close() })
	p.release = func() {
		if goOn() {
			p.client.lines.give(l)
		}
	}
	return l.start(start)
}

// begun waits until the guest has said that the command runs.
func (p *Process) begun() error {
	first, err := p.answers.Receive()
	if err != nil {
		return err
	}
	if first.GetStarted() == nil {
		return errors.New("the guest did not say that it was started")
	}
	p.id, p.pid = first.GetStarted().Id, int(first.GetStarted().Pid)
	return nil
}

// Run is Exec and Wait.
func (c *Client) Run(ctx context.Context, cmd engine.Command) (engine.Exit, error) {
	p, err := c.Exec(ctx, cmd)
	if err != nil {
		return engine.Exit{}, err
	}
	return p.Wait()
}

func startOf(cmd engine.Command) *guestpb.Start {
	if cmd.Env == nil && cmd.Room == "" {
		cmd.Env = DefaultEnv()
	}
	start := &guestpb.Start{
		Args: wire.Bytes(cmd.Args), Env: wire.Bytes(cmd.Env), Dir: []byte(cmd.Dir),
		Stdin: cmd.Stdin != nil, Stdout: cmd.Stdout != nil, Stderr: cmd.Stderr != nil,
		TimeoutNanos: int64(cmd.Timeout), GraceNanos: int64(cmd.Grace), IdleTimeoutNanos: int64(cmd.IdleTimeout),
		Room: []byte(cmd.Room), RoomRoot: cmd.RoomRoot, ReadOnly: cmd.ReadOnly, Plugin: string(cmd.Plugin), Offline: cmd.Offline, MaxOutputBytes: cmd.MaxOutput,
	}
	if t := cmd.Terminal; t != nil {
		start.Pty = &guestpb.Pty{Rows: uint32(t.Size.Rows), Cols: uint32(t.Size.Cols), Term: t.Term}
	}
	return start
}

// PID is the command's process id in the guest.
func (p *Process) PID() int { return p.pid }

// Done is closed when Wait would not block.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns when the command has ended and all its output is written. It
// may be called often. An exit code other than 0 is no error; the error says
// that the command's end is not known, or that its output could not be written.
func (p *Process) Wait() (engine.Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Signal sends a signal to the command's process group. It fails with
// NotFound when the command has ended.
func (p *Process) Signal(ctx context.Context, s engine.Signal) error {
	_, err := call(ctx, "send "+s.String(), p.client.rpc.Signal, &guestpb.SignalRequest{Id: p.id, Signal: int32(s)})
	return err
}

// Resize changes the size of the command's terminal, if it has one.
func (p *Process) Resize(s engine.TerminalSize) error {
	if p.cmd.Terminal == nil {
		return nil
	}
	return p.send(&guestpb.ExecRequest{What: &guestpb.ExecRequest_Resize{Resize: resizeTo(s)}})
}

// send has one sender at a time. A command that has ended takes no more.
func (p *Process) send(m *guestpb.ExecRequest) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	return p.input.Send(m)
}

// feed carries standard input until it ends or the command does.
func (p *Process) feed() {
	buf := make([]byte, wire.Chunk)
	for {
		n, err := p.cmd.Stdin.Read(buf)
		if n > 0 && p.send(&guestpb.ExecRequest{What: &guestpb.ExecRequest_Stdin{Stdin: buf[:n]}}) != nil {
			return
		}
		if err != nil {
			// A broken reader ends the input; that it broke is its owner's to see.
			_ = p.send(&guestpb.ExecRequest{What: &guestpb.ExecRequest_StdinEnd{StdinEnd: &guestpb.StdinEnd{}}})
			return
		}
	}
}

// follow carries output until the command ends.
func (p *Process) follow(ctx context.Context) {
	defer close(p.done)
	defer p.cancel()
	defer p.release()
	var stdout, stderr uint64
	for {
		m, err := p.answers.Receive()
		if err != nil {
			p.err = wire.Decode(engine.OpRun, p.name, streamEnd(ctx, err))
			return
		}
		switch w := m.What.(type) {
		case *guestpb.ExecResponse_Stdout:
			p.err = p.deliver(p.cmd.Stdout, "output", w.Stdout, &stdout)
		case *guestpb.ExecResponse_Stderr:
			p.err = p.deliver(p.cmd.Stderr, "error output", w.Stderr, &stderr)
		case *guestpb.ExecResponse_Exit:
			p.exit, p.err = p.exitOf(w.Exit)
			return
		}
		if p.err != nil {
			return
		}
	}
}

// deliver hands on what came of a stream, of which so much came before. Who asks for no
// more than MaxOutput may hold all of it, so it is not left to the guest to keep to that.
func (p *Process) deliver(w io.Writer, name string, b []byte, before *uint64) error {
	if *before += uint64(len(b)); p.cmd.MaxOutput > 0 && *before > p.cmd.MaxOutput {
		return p.lied("the guest sent more than %d bytes of its %s", p.cmd.MaxOutput, name)
	}
	return Deliver(w, name, b)
}

// lied is the error of a guest that says what no guest does.
func (p *Process) lied(format string, args ...any) error {
	return fault.New(fault.Rejected, engine.OpRun, p.name, fmt.Errorf(format, args...)).
		Advise("The guest is not what was booted: restart it, or reset it.")
}

// streamEnd says what it means that a stream ended before its last message.
func streamEnd(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil && !faultrpc.Answered(err):
		return ctx.Err()
	case errors.Is(err, io.EOF):
		return connect.NewError(connect.CodeUnavailable, errors.New("the guest did not say how it ended"))
	case connect.CodeOf(err) == connect.CodeCanceled:
		// That is what the transport says of a connection that broke.
		return connect.NewError(connect.CodeUnavailable, errors.New("the connection to the guest was lost"))
	}
	return err
}

// maxSignal is the last signal of Linux.
const maxSignal = 64

func (p *Process) exitOf(e *guestpb.Exit) (engine.Exit, error) {
	if n := e.GetSignal(); n < 0 || n > maxSignal {
		return engine.Exit{}, p.lied("the guest says that signal %d ended it", n)
	}
	return engine.Exit{
		Code: int(e.GetCode()), Signal: engine.Signal(e.GetSignal()), TimedOut: e.GetTimedOut(), Idle: e.GetIdle(),
		OOM: e.GetOom(), PIDs: e.GetPids(), Quota: e.GetQuota(),
		StdoutTruncated: e.GetStdoutTruncated(), StderrTruncated: e.GetStderrTruncated(),
	}, nil
}

// Deliver writes what came of a stream to whom it is for, if it is for anybody.
// Its errors are those of Process and Attachment: whoever carries a command or
// a terminal further says the same of it.
func Deliver(w io.Writer, name string, b []byte) error {
	if w == nil {
		return nil
	}
	if _, err := w.Write(b); err != nil {
		return fault.Newf(fault.Execution, "write command's "+name, "", "%d bytes: %w", len(b), err)
	}
	return nil
}
