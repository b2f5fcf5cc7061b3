package control

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"unicode/utf8"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
)

// execCall is a call that runs a command, at its client.
type execCall = connect.BidiStreamForClientSimple[controlpb.ExecRequest, controlpb.ExecResponse]

// Process is a command that runs in the guest. It implements engine.Process.
type Process struct {
	client  *Client
	cmd     engine.Command
	stream  *execCall
	sending sync.Mutex // a stream has one sender at a time
	ctx     context.Context
	cancel  context.CancelFunc
	started *controlpb.ExecStarted
	done    chan struct{}
	exit    engine.Exit // after done
	err     error       // after done
}

// RunAs is the agent and user that a command runs as. The zero value is root of the guest.
type RunAs struct {
	Agent   string   // name or id
	Secrets []string // of the agent, for the command's environment
	Tenant  engine.Tenant
	// Session, if not empty, is the agent's shell to attach to instead of running a command: its input is what is
	// typed. Cancelling leaves the shell as it is.
	Session config.SessionID
}

// Run starts a command and returns when it runs. It starts the guest if necessary.
// Cancelling the context ends the command. Grace is ignored, and Dir must be UTF-8.
func (c *Client) Run(ctx context.Context, as RunAs, cmd engine.Command) (*Process, error) {
	start, call := startOf(cmd), c.Exec
	if as.Agent != "" {
		call = c.Agents.Exec
		start.Agent, start.Secrets, start.Tenant = as.Agent, as.Secrets, string(as.Tenant)
	}
	if as.Session != "" {
		call, start.Session = c.Shells.Attach, string(as.Session)
	}
	p := &Process{client: c, cmd: cmd, done: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(ctx)
	if err := p.begin(call, &controlpb.ExecRequest{What: &controlpb.ExecRequest_Start{Start: start}}); err != nil {
		p.cancel()
		return nil, err
	}
	if cmd.Stdin != nil || cmd.Terminal != nil { // there is more to send
		// The transport looks at the context only when the request has ended.
		context.AfterFunc(p.ctx, func() { _ = p.stream.CloseRequest() })
	} else {
		_ = p.stream.CloseRequest()
	}
	if cmd.Stdin != nil {
		go p.feed()
	}
	go p.follow()
	return p, nil
}

// begin makes the call, and returns when the command runs.
func (p *Process) begin(call func(context.Context) (*execCall, error), start *controlpb.ExecRequest) (err error) {
	if p.stream, err = call(p.ctx); err != nil {
		return err
	}
	if err := p.stream.Send(start); err != nil && !errors.Is(err, io.EOF) { // with EOF, receive has the reason
		return err
	}
	first, err := p.receive()
	if err == nil && first.GetStarted() == nil {
		err = fault.Newf(fault.Execution, "run command", "", "the daemon did not say that it was started")
	}
	p.started = first.GetStarted()
	return err
}

func (p *Process) send(m *controlpb.ExecRequest) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	return p.stream.Send(m)
}

// receive returns the next answer.
func (p *Process) receive() (*controlpb.ExecResponse, error) {
	m, err := p.stream.Receive()
	if errors.Is(err, io.EOF) {
		err = fault.Newf(fault.Unavailable, "run command", "", "the daemon did not say how it ended").Advise("See `osaurus-sandbox logs`.")
	}
	return m, err
}

// Done is closed when Wait would not block.
func (p *Process) Done() <-chan struct{} { return p.done }

// startOf is the start of a command for the wire, without its streams.
func startOf(cmd engine.Command) *controlpb.ExecStart {
	start := &controlpb.ExecStart{
		Dir: cmd.Dir, Stdin: cmd.Stdin != nil, Root: cmd.RoomRoot, ReadOnly: cmd.ReadOnly,
		Timeout: span(cmd.Timeout), IdleTimeout: span(cmd.IdleTimeout), MaxOutput: cmd.MaxOutput,
	}
	start.Args, start.RawArgs = carried(cmd.Args)
	start.Env, start.RawEnv = carried(cmd.Env)
	if t := cmd.Terminal; t != nil {
		start.Terminal = &controlpb.Terminal{Rows: uint32(t.Size.Rows), Cols: uint32(t.Size.Cols), Term: t.Term}
	}
	return start
}

// carried returns a list as strings if all are UTF-8, as protobuf demands, or else as bytes.
func carried(list []string) (texts []string, raw [][]byte) {
	if !slices.ContainsFunc(list, func(s string) bool { return !utf8.ValidString(s) }) {
		return list, nil
	}
	return nil, protos(list, func(s string) []byte { return []byte(s) })
}

// PID is the command's process id in the guest.
func (p *Process) PID() int { return int(p.started.Pid) }

// Wait returns when the command has ended and all its output is written.
func (p *Process) Wait() (engine.Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Signal sends a signal to the command's process group.
func (p *Process) Signal(ctx context.Context, s engine.Signal) error {
	_, err := p.client.Signal(ctx, &controlpb.SignalRequest{Id: p.started.Id, Signal: int32(s)})
	return err
}

// Resize changes the size of the command's terminal. Behind input that nobody
// reads it waits until the command ends.
func (p *Process) Resize(s engine.TerminalSize) error {
	return p.send(&controlpb.ExecRequest{What: &controlpb.ExecRequest_Resize{Resize: &controlpb.Resize{Rows: uint32(s.Rows), Cols: uint32(s.Cols)}}})
}

// feed carries standard input until it ends or the command does.
func (p *Process) feed() {
	buf := make([]byte, chunk)
	for {
		n, err := p.cmd.Stdin.Read(buf)
		if n > 0 && p.send(&controlpb.ExecRequest{What: &controlpb.ExecRequest_Stdin{Stdin: buf[:n]}}) != nil {
			return
		}
		if err != nil {
			_ = p.send(&controlpb.ExecRequest{What: &controlpb.ExecRequest_StdinEnd{StdinEnd: &controlpb.StdinEnd{}}})
			return
		}
	}
}

// follow carries output until the command ends.
func (p *Process) follow() {
	defer close(p.done)
	defer p.cancel()
	for p.err == nil {
		var m *controlpb.ExecResponse
		if m, p.err = p.receive(); p.err != nil {
			return
		}
		switch w := m.What.(type) {
		case *controlpb.ExecResponse_Stdout:
			p.err = guest.Deliver(p.cmd.Stdout, "output", w.Stdout)
		case *controlpb.ExecResponse_Stderr:
			p.err = guest.Deliver(p.cmd.Stderr, "error output", w.Stderr)
		case *controlpb.ExecResponse_Exit:
			p.exit = engine.Exit{
				Code: int(w.Exit.Status), Signal: engine.Signal(w.Exit.Signal), TimedOut: w.Exit.TimedOut, Idle: w.Exit.Idle, Cause: w.Exit.Cause,
				OOM: w.Exit.Oom, PIDs: w.Exit.Pids, Quota: w.Exit.Quota,
				StdoutTruncated: w.Exit.StdoutTruncated, StderrTruncated: w.Exit.StderrTruncated,
			}
			return
		}
	}
}
