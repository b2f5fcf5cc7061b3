package control

import (
	"context"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"

	"connectrpc.com/connect"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

type execStream = connect.BidiStream[controlpb.ExecRequest, controlpb.ExecResponse]

// starter starts a command somewhere.
type starter func(context.Context, engine.Command) (engine.Process, error)

// Exec runs one command as root of the guest.
func (s service) Exec(ctx context.Context, stream *execStream) error {
	start, err := receiveStart(stream)
	if err != nil {
		return err
	}
	if start.Agent != "" || start.Line != "" || start.Root || start.ReadOnly || start.Tenant != "" || len(start.Secrets) > 0 {
		return fault.Newf(fault.InvalidArgs, "run command", "", "agent, line, root, read_only, tenant and secrets are not for the guest's root").Advise("Call Agents.Exec.")
	}
	return s.exec(ctx, note{action: "exec.root", subject: commandLine(start.Args), strict: true}, start, stream, s.Sandbox.Exec)
}

// receiveStart is the first message of a call that runs a command.
func receiveStart(stream *execStream) (*controlpb.ExecStart, error) {
	first, err := stream.Receive()
	if err != nil {
		return nil, fault.Newf(fault.InvalidArgs, "run command", "", "no start: %w", err)
	}
	start := first.GetStart()
	if len(start.GetRawArgs()) > 0 {
		start.Args = texts(start.RawArgs)
	}
	if len(start.GetRawEnv()) > 0 {
		start.Env = texts(start.RawEnv)
	}
	if start == nil || len(start.Args) == 0 && start.Line == "" {
		return nil, fault.Newf(fault.InvalidArgs, "run command", "", "the first message says no command to start").Advise("Begin with a message that has start, with args or a line for a shell.")
	}
	return start, nil
}

// texts are bytes that may be no UTF-8, as the guest takes them.
func texts(raw [][]byte) []string {
	list := make([]string, len(raw))
	for i, b := range raw {
		list[i] = string(b)
	}
	return list
}

// exec runs a command, on the record.
func (s service) exec(ctx context.Context, n note, start *controlpb.ExecStart, stream *execStream, run starter) error {
	return s.audited(ctx, n, func() error {
		exit, err := s.carry(ctx, start, stream, run)
		if err != nil {
			return err
		}
		// Nobody waits for the entry that says how it ended.
		return stream.Send(&controlpb.ExecResponse{What: &controlpb.ExecResponse_Exit{Exit: exitProto(exit)}})
	})
}

func exitProto(e engine.Exit) *controlpb.ExecExit {
	return &controlpb.ExecExit{
		Status: int32(e.Status()), Signal: int32(e.Signal), TimedOut: e.TimedOut, Idle: e.Idle,
		Oom: e.OOM, Pids: e.PIDs, Quota: e.Quota, StdoutTruncated: e.StdoutTruncated, StderrTruncated: e.StderrTruncated,
	}
}

// carry carries a command's streams until it has ended.
func (s service) carry(ctx context.Context, start *controlpb.ExecStart, stream *execStream, run starter) (engine.Exit, error) {
	out := &outputs{stream: stream}
	cmd := command(start)
	cmd.Stdout = out.to(func(b []byte) *controlpb.ExecResponse {
		return &controlpb.ExecResponse{What: &controlpb.ExecResponse_Stdout{Stdout: b}}
	})
	cmd.Stderr = out.to(func(b []byte) *controlpb.ExecResponse {
		return &controlpb.ExecResponse{What: &controlpb.ExecResponse_Stderr{Stderr: b}}
	})
	in := io.WriteCloser(unheard{io.Discard})
	if start.Stdin {
		r, w := io.Pipe()
		defer r.Close() // releases whoever waits for the command to read
		cmd.Stdin, in = r, w
	}
	out.mu.Lock() // until it is said that the command has started
	process, err := run(ctx, cmd)
	if err != nil {
		out.mu.Unlock()
		return engine.Exit{}, err
	}
	if start.Stdin || cmd.Terminal != nil {
		go follow(stream, process, in)
	}
	id, forget := s.running.add(process)
	defer forget()
	err = stream.Send(&controlpb.ExecResponse{What: &controlpb.ExecResponse_Started{
		Started: &controlpb.ExecStarted{Id: id, Pid: int32(process.PID())},
	}})
	out.mu.Unlock()
	if err != nil {
		return engine.Exit{}, err // and the end of the call ends the command
	}
	return process.Wait()
}

// command is the command that a start asks for, but for its streams.
func command(start *controlpb.ExecStart) engine.Command {
	cmd := engine.Command{
		Args: start.Args, Env: start.Env, Dir: start.Dir, RoomRoot: start.Root, ReadOnly: start.ReadOnly,
		Timeout: start.Timeout.AsDuration(), IdleTimeout: start.IdleTimeout.AsDuration(), MaxOutput: start.MaxOutput,
	}
	if start.Line != "" {
		cmd.Args = loginShell(start.Line)
	}
	if t := start.Terminal; t != nil {
		cmd.Terminal = &engine.Terminal{Size: terminalSize(t.Rows, t.Cols), Term: t.Term}
	}
	return cmd
}

// inLoginShell runs its first argument in an agent's login shell: only the room
// knows which that is.
const inLoginShell = `exec "${SHELL:-/bin/sh}" -lc "$1"`

func loginShell(line string) []string { return []string{"/bin/sh", "-c", inLoginShell, "sh", line} }

// asTyped is a command as a shell would read it, or the line that loginShell
// made a command of.
func asTyped(args []string) string {
	if len(args) == len(loginShell("")) && args[2] == inLoginShell {
		return args[4]
	}
	return commandLine(args)
}

// terminalSize is a size that a client asks for; no terminal is larger.
func terminalSize(rows, cols uint32) engine.TerminalSize {
	return engine.TerminalSize{Rows: uint16(min(rows, math.MaxUint16)), Cols: uint16(min(cols, math.MaxUint16))}
}

// Signal signals a command that Exec runs.
func (s service) Signal(ctx context.Context, r *controlpb.SignalRequest) (*controlpb.SignalResponse, error) {
	process, err := s.running.get(r.Id)
	if err == nil {
		err = process.Signal(ctx, engine.Signal(r.Signal))
	}
	return &controlpb.SignalResponse{}, err
}

// unheard is the input of a command that takes none.
type unheard struct{ io.Writer }

func (unheard) Close() error { return nil }

// follow carries what comes after start.
func follow(stream *execStream, process engine.Process, in io.WriteCloser) {
	for {
		m, err := stream.Receive()
		switch what := m.GetWhat().(type) {
		case *controlpb.ExecRequest_Resize:
			err = process.Resize(terminalSize(what.Resize.Rows, what.Resize.Cols))
		case *controlpb.ExecRequest_Stdin:
			_, err = in.Write(what.Stdin)
		case *controlpb.ExecRequest_StdinEnd:
			_ = in.Close()
		}
		if err != nil {
			_ = in.Close() // who goes away without a word ends the call too
			return
		}
	}
}

// outputs sends what the command writes, one message at a time.
type outputs struct {
	mu     sync.Mutex
	stream *execStream
}

func (o *outputs) to(message func([]byte) *controlpb.ExecResponse) io.Writer {
	return writer(func(b []byte) (int, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		for sent := 0; sent < len(b); {
			part := b[sent:min(len(b), sent+chunk)]
			if err := o.stream.Send(message(part)); err != nil {
				return sent, err
			}
			sent += len(part)
		}
		return len(b), nil
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// running are the commands that can be signalled.
type running struct {
	mu   sync.Mutex
	last uint64
	all  map[string]engine.Process
}

func (r *running) add(p engine.Process) (id string, forget func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]engine.Process{}
	}
	r.last++
	id = strconv.FormatUint(r.last, 10)
	r.all[id] = p
	return id, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.all, id)
	}
}

func (r *running) get(id string) (engine.Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.all[id]; ok {
		return p, nil
	}
	return nil, fault.Newf(fault.NotFound, "send signal", id, "no such command runs").Advise("It may have ended. Send the id that its exec has answered.")
}

// commandLine is a command for people to read: quoted only where a shell needs it.
func commandLine(args []string) string {
	var b strings.Builder
	for i, arg := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		if arg != "" && !strings.ContainsFunc(arg, unsafeInShell) {
			b.WriteString(arg)
		} else {
			b.WriteString(printable.Quote(arg))
		}
	}
	return b.String()
}

func unsafeInShell(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r))
}
