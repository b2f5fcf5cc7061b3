package control

import (
	"context"
	"slices"
	"unicode/utf8"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
)

// Process is a command that runs in the guest. It implements engine.Process.
type Process struct {
	*duplex[controlpb.ExecRequest, controlpb.ExecResponse]
	client *Client
	cmd    engine.Command
	id     string
	pid    int
	exit   engine.Exit // after done
	err    error       // after done
}

// RunAs is the agent and user that a command runs as. The zero value is root of the guest.
type RunAs struct {
	Agent   string   // name or id
	Secrets []string // of the agent, for the command's environment
	Tenant  engine.Tenant
	attach  bool // to a shell of the agent
	session string
}

// Run starts a command and returns when it runs. It starts the guest if necessary.
// Cancelling the context ends the command. Grace is ignored, and Dir must be UTF-8.
func (c *Client) Run(ctx context.Context, as RunAs, cmd engine.Command) (*Process, error) {
	start, call := startOf(cmd), c.Exec
	if as.Agent != "" {
		call = c.Agents.Exec
		start.Agent, start.Secrets, start.Tenant = as.Agent, as.Secrets, string(as.Tenant)
	}
	if as.attach {
		call, start.Session = c.Shells.Attach, as.session
	}
	stream, first, err := begin(ctx, call, &controlpb.ExecRequest{What: &controlpb.ExecRequest_Start{Start: start}})
	if err != nil {
		return nil, err
	}
	if first.GetStarted() == nil {
		stream.cancel()
		return nil, fault.Newf(fault.Execution, "run command", "", "the daemon did not say that it was started")
	}
	p := &Process{duplex: stream, client: c, cmd: cmd, id: first.GetStarted().Id, pid: int(first.GetStarted().Pid)}
	if cmd.Stdin != nil || cmd.Terminal != nil { // there is more to send
		p.keepOpen()
	} else {
		_ = p.stream.CloseRequest()
	}
	if cmd.Stdin != nil {
		go p.feed()
	}
	go p.follow()
	return p, nil
}

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
func (p *Process) PID() int { return p.pid }

// Wait returns when the command has ended and all its output is written.
func (p *Process) Wait() (engine.Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Signal sends a signal to the command's process group.
func (p *Process) Signal(ctx context.Context, s engine.Signal) error {
	_, err := p.client.Signal(ctx, &controlpb.SignalRequest{Id: p.id, Signal: int32(s)})
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
