package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc"
	"osaurus-sandbox/internal/printable"
)

// DefaultEnv returns the environment for the guest root's commands that set none.
func DefaultEnv() []string { return protocol.RootEnvironment() }

const (
	// execLimit bounds how long a guest may take to start a command.
	execLimit = 15 * time.Second
	// execSlack is how long to wait for the command's end after that.
	execSlack = 5 * time.Second
)

// process implements engine.Process.
type process struct {
	client  *Client
	cmd     engine.Command
	name    string
	id      uint64
	pid     int
	receive func() (*guestpb.ExecResponse, error)
	input   *inputStream // nil if the command takes none
	sending sync.Mutex
	cancel  context.CancelCauseFunc
	done    chan struct{}
	exit    engine.Exit // after done
	err     error       // after done
}

type inputStream = connect.BidiStreamForClientSimple[guestpb.ExecRequest, guestpb.ExecResponse]

// Exec implements engine.Room. The host bounds starting and timeouts too, so a silent guest does
// not block the caller.
func (c room) Exec(ctx context.Context, cmd engine.Command) (engine.Process, error) {
	start := c.startOf(cmd)
	ctx, cancel := context.WithCancelCause(ctx)
	p := &process{client: c.Client, cmd: cmd, name: printable.Clip(strings.Join(cmd.Args[:min(1, len(cmd.Args))], "")), cancel: cancel, done: make(chan struct{})}
	late := time.AfterFunc(execLimit, func() { cancel(ErrSilent) })
	send := p.sendAlone
	if cmd.Stdin != nil || cmd.Terminal != nil {
		send = p.sendWithInput
	}
	first, err := send(ctx, start)
	if err == nil && first.GetStarted() == nil {
		err = errors.New("the guest did not say that the command was started")
	}
	if !late.Stop() && err == nil {
		cancel(ErrSilent)
		err = ErrSilent // the command has ended with ctx
	}
	if err != nil {
		err = p.fault(ctx, err)
		cancel(nil)
		return nil, err
	}
	if cmd.Timeout > 0 {
		late = time.AfterFunc(cmd.Timeout+cmp.Or(cmd.Grace, protocol.DefaultGrace)+execSlack, func() { cancel(ErrSilent) })
	}
	p.id, p.pid = first.GetStarted().Id, int(first.GetStarted().Pid)
	if cmd.Stdin != nil {
		go p.feed()
	}
	go func() {
		defer late.Stop()
		p.follow(ctx)
	}()
	return p, nil
}

// Exec starts a command as the guest's root.
func (c *Client) Exec(ctx context.Context, cmd engine.Command) (engine.Process, error) {
	return c.Room(engine.Root).Exec(ctx, cmd)
}

// Run executes a command as the guest's root and waits for it.
func (c *Client) Run(ctx context.Context, cmd engine.Command) (engine.Exit, error) {
	return engine.Run(ctx, c.Room(engine.Root), cmd)
}

// sendWithInput starts a command that takes input, and returns the first answer.
func (p *process) sendWithInput(ctx context.Context, start *guestpb.Start) (*guestpb.ExecResponse, error) {
	stream, err := p.client.rpc.Exec(ctx)
	if err != nil {
		return nil, err
	}
	p.input, p.receive = stream, stream.Receive
	return openStream(ctx, stream, &guestpb.ExecRequest{What: &guestpb.ExecRequest_Start{Start: start}})
}

// sendAlone starts a command that takes no input, and returns the first answer.
func (p *process) sendAlone(ctx context.Context, start *guestpb.Start) (*guestpb.ExecResponse, error) {
	stream, err := p.client.commands.ExecWithoutInput(ctx, start)
	if err != nil {
		return nil, err
	}
	p.receive = func() (*guestpb.ExecResponse, error) {
		if stream.Receive() {
			return stream.Msg(), nil
		}
		return nil, cmp.Or(stream.Err(), io.EOF)
	}
	return p.receive()
}

// openStream sends the first message of a stream and returns the first answer. The end of ctx ends
// the stream.
func openStream[Q, R any](ctx context.Context, s *connect.BidiStreamForClientSimple[Q, R], first *Q) (*R, error) {
	// The transport looks at the context only when the request has ended.
	context.AfterFunc(ctx, func() {
		_ = s.CloseRequest()
		_ = s.CloseResponse()
	})
	if err := s.Send(first); err != nil && !errors.Is(err, io.EOF) { // after EOF, Receive returns the reason
		return nil, err
	}
	return s.Receive()
}

func (c room) startOf(cmd engine.Command) *guestpb.Start {
	if cmd.Env == nil && c.user == engine.Root {
		cmd.Env = DefaultEnv()
	}
	start := &guestpb.Start{
		Args: protocol.Bytes(cmd.Args), Env: protocol.Bytes(cmd.Env), Dir: []byte(cmd.Dir),
		Stdin: cmd.Stdin != nil, Stdout: cmd.Stdout != nil, Stderr: cmd.Stderr != nil,
		TimeoutNanos: int64(cmd.Timeout), GraceNanos: int64(cmd.Grace), IdleTimeoutNanos: int64(cmd.IdleTimeout),
		Room: []byte(c.user), RoomRoot: cmd.RoomRoot, ReadOnly: cmd.ReadOnly, Plugin: string(cmd.Plugin), OwnNetwork: cmd.Network != "", Address: cmd.Address.AsSlice(), MaxOutputBytes: cmd.MaxOutput,
	}
	if t := cmd.Terminal; t != nil {
		start.Pty = &guestpb.Pty{Rows: uint32(t.Size.Rows), Cols: uint32(t.Size.Cols), Term: t.Term}
	}
	return start
}

// PID implements engine.Process.
func (p *process) PID() int { return p.pid }

// Done implements engine.Process.
func (p *process) Done() <-chan struct{} { return p.done }

// Wait implements engine.Process.
func (p *process) Wait() (engine.Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Signal implements engine.Process.
func (p *process) Signal(ctx context.Context, s engine.Signal) error {
	_, err := p.client.rpc.Signal(ctx, &guestpb.SignalRequest{Id: p.id, Signal: int32(s)})
	return err
}

// Resize implements engine.Process.
func (p *process) Resize(s engine.TerminalSize) error {
	if p.cmd.Terminal == nil {
		return nil
	}
	return p.send(&guestpb.ExecRequest{What: &guestpb.ExecRequest_Resize{Resize: resizeTo(s)}})
}

// send sends one message. A stream has one sender at a time.
func (p *process) send(m *guestpb.ExecRequest) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	return p.input.Send(m)
}

// feed carries standard input until it ends or the command does.
func (p *process) feed() {
	buf := make([]byte, protocol.Chunk)
	for {
		n, err := p.cmd.Stdin.Read(buf)
		if n > 0 && p.send(&guestpb.ExecRequest{What: &guestpb.ExecRequest_Stdin{Stdin: buf[:n]}}) != nil {
			return
		}
		if err != nil {
			// An error ends the input like EOF; the reader's owner knows about it.
			_ = p.send(&guestpb.ExecRequest{What: &guestpb.ExecRequest_StdinEnd{StdinEnd: &guestpb.StdinEnd{}}})
			return
		}
	}
}

// follow carries output until the command ends.
func (p *process) follow(ctx context.Context) {
	defer close(p.done)
	defer p.cancel(nil)
	var stdout, stderr uint64
	for {
		m, err := p.receive()
		if err != nil {
			p.err = p.fault(ctx, err)
			return
		}
		switch w := m.What.(type) {
		case *guestpb.ExecResponse_Stdout:
			p.err = p.deliver(p.cmd.Stdout, "output", w.Stdout, &stdout)
		case *guestpb.ExecResponse_Stderr:
			p.err = p.deliver(p.cmd.Stderr, "error output", w.Stderr, &stderr)
		case *guestpb.ExecResponse_Exit:
			p.exit, p.err = p.exitOf(w.Exit)
			p.drain()
			return
		}
		if p.err != nil {
			return
		}
	}
}

// drain reads the end of the stream, which follows the exit at once, so that other commands can use
// the connection.
func (p *process) drain() {
	late := time.AfterFunc(endDelay, func() { p.cancel(nil) })
	defer late.Stop()
	_, _ = p.receive()
}

// deliver writes a part of a stream. It enforces MaxOutput again, because callers hold the output
// in memory.
func (p *process) deliver(w io.Writer, name string, b []byte, before *uint64) error {
	if *before += uint64(len(b)); p.cmd.MaxOutput > 0 && *before > p.cmd.MaxOutput {
		return p.invalid("the guest sent more than %d bytes of its %s", p.cmd.MaxOutput, name)
	}
	return Deliver(w, name, b)
}

// fault returns the error of a command that could not run or was lost.
func (p *process) fault(ctx context.Context, err error) error {
	return fault.Wrap(engine.OpRun, p.name, p.client.fault(ctx, streamEnd(ctx, err)))
}

// invalid returns the error of a guest that breaks the protocol.
func (p *process) invalid(format string, args ...any) error {
	return fault.New(fault.Rejected, engine.OpRun, p.name, fmt.Errorf(format, args...)).
		Advise("Restart the sandbox; if it happens again, reset it.")
}

// streamEnd explains a stream that ended before its last message.
func streamEnd(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil && !faultrpc.Answered(err):
		return ctx.Err()
	case errors.Is(err, io.EOF):
		return connect.NewError(connect.CodeUnavailable, errors.New("the guest did not say how it ended"))
	case !faultrpc.Answered(err):
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the connection to the guest was lost: %w", err))
	}
	return err
}

func (p *process) exitOf(e *guestpb.Exit) (engine.Exit, error) {
	if n := e.GetSignal(); n < 0 || n > protocol.MaxSignal {
		return engine.Exit{}, p.invalid("the guest says that signal %d ended it", n)
	}
	return engine.Exit{
		Code: int(e.GetCode()), Signal: engine.Signal(e.GetSignal()), TimedOut: e.GetTimedOut(), Idle: e.GetIdle(),
		OOM: e.GetOom(), PIDs: e.GetPids(), Quota: e.GetQuota(),
		StdoutTruncated: e.GetStdoutTruncated(), StderrTruncated: e.GetStderrTruncated(),
	}, nil
}

// Deliver writes a part of a command's output, unless w is nil.
func Deliver(w io.Writer, name string, b []byte) error {
	if w == nil {
		return nil
	}
	if _, err := w.Write(b); err != nil {
		return fault.Newf(fault.Execution, "write command's "+name, "", "%d bytes: %w", len(b), err)
	}
	return nil
}
