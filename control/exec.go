package control

import (
	"context"
	"crypto/rand"
	"io"
	"math"
	"regexp"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

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
	start, err := receiveStart(stream, true)
	if err != nil {
		return err
	}
	if start.Agent != "" || start.Line != "" || start.Root || start.ReadOnly || start.Tenant != "" || len(start.Secrets) > 0 {
		return fault.Newf(fault.InvalidArgs, "run command", "", "agent, line, root, read_only, tenant and secrets are not for the guest's root").Advise("Call Agents.Exec.")
	}
	return s.exec(ctx, note{action: "exec.root", subject: commandLine(start.Args), strict: true}, start, stream, s.Sandbox.Exec)
}

// receiveStart receives the first message of a call that runs a command, or attaches to a shell without one.
func receiveStart(stream *execStream, command bool) (*controlpb.ExecStart, error) {
	first, err := stream.Receive()
	if err != nil {
		return nil, fault.Newf(fault.InvalidArgs, "run command", "", "no start: %w", err)
	}
	start := first.GetStart()
	text := func(raw []byte) string { return string(raw) }
	if len(start.GetRawArgs()) > 0 {
		start.Args = protos(start.RawArgs, text)
	}
	if len(start.GetRawEnv()) > 0 {
		start.Env = protos(start.RawEnv, text)
	}
	if start == nil || command && len(start.Args) == 0 && start.Line == "" {
		return nil, fault.Newf(fault.InvalidArgs, "run command", "", "the first message names no command to start").Advise("Begin with a message that has start, with args or a line for a shell.")
	}
	return start, checkCommand(start.Env, start.Timeout, start.IdleTimeout)
}

// checkCommand fails for variables and times that mean nothing.
func checkCommand(env []string, times ...*durationpb.Duration) error {
	for _, v := range env {
		if strings.IndexByte(v, '=') < 1 {
			return fault.Newf(fault.InvalidArgs, "run command", "", "the variable %q is not NAME=value", printable.Clip(v))
		}
	}
	for _, t := range times {
		if t.AsDuration() < 0 {
			return fault.Newf(fault.InvalidArgs, "run command", "", "a timeout is negative")
		}
	}
	return nil
}

// exec runs a command between two entries of the audit and carries its streams.
func (s service) exec(ctx context.Context, n note, start *controlpb.ExecStart, stream *execStream, run starter) error {
	exit, err := answered(ctx, s, n, func() (exit engine.Exit, err error) {
		out := &sharedStream[controlpb.ExecResponse]{stream: stream}
		cmd := command(start)
		cmd.Stdout = inChunks(func(b []byte) error {
			return out.Send(&controlpb.ExecResponse{What: &controlpb.ExecResponse_Stdout{Stdout: b}})
		})
		cmd.Stderr = inChunks(func(b []byte) error {
			return out.Send(&controlpb.ExecResponse{What: &controlpb.ExecResponse_Stderr{Stderr: b}})
		})
		var in io.WriteCloser
		if start.Stdin {
			r, w := io.Pipe()
			defer r.Close() // releases a writer when the command does not read
			cmd.Stdin, in = r, w
		}
		out.Lock() // the start is sent before any output
		process, err := run(ctx, cmd)
		if err == nil {
			id := rand.Text()
			s.running.Store(id, process)
			defer s.running.Delete(id)
			err = stream.Send(&controlpb.ExecResponse{What: &controlpb.ExecResponse_Started{
				Started: &controlpb.ExecStarted{Id: id, Pid: int32(process.PID())},
			}})
		}
		out.Unlock()
		if err != nil {
			return exit, err // the end of the call ends the command
		}
		if start.Stdin || cmd.Terminal != nil {
			go follow(stream, process, in)
		}
		return process.Wait()
	})
	if err != nil {
		return err
	}
	return stream.Send(&controlpb.ExecResponse{What: &controlpb.ExecResponse_Exit{Exit: exitProto(exit)}})
}

func exitProto(e engine.Exit) *controlpb.ExecExit {
	return &controlpb.ExecExit{
		Status: int32(e.Status()), Signal: int32(e.Signal), TimedOut: e.TimedOut, Idle: e.Idle, Cause: e.Cause,
		Oom: e.OOM, Pids: e.PIDs, Quota: e.Quota, StdoutTruncated: e.StdoutTruncated, StderrTruncated: e.StderrTruncated,
	}
}

// command is startOf in reverse.
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

// inLoginShell runs its first argument in the agent's login shell, which only the room
// knows.
const inLoginShell = `exec "${SHELL:-/bin/sh}" -lc "$1"`

func loginShell(line string) []string { return []string{"/bin/sh", "-c", inLoginShell, "sh", line} }

// asTyped returns a command as a shell would read it, and the line of a loginShell.
func asTyped(args []string) string {
	if len(args) == len(loginShell("")) && args[2] == inLoginShell {
		return args[4]
	}
	return commandLine(args)
}

// terminalSize bounds the size that a client asks for.
func terminalSize(rows, cols uint32) engine.TerminalSize {
	return engine.TerminalSize{Rows: uint16(min(rows, math.MaxUint16)), Cols: uint16(min(cols, math.MaxUint16))}
}

// Signal signals a command that Exec runs.
func (s service) Signal(ctx context.Context, r *controlpb.SignalRequest) (*controlpb.SignalResponse, error) {
	process, ok := s.running.Load(r.Id)
	if !ok {
		return nil, fault.Newf(fault.NotFound, "send signal", r.Id, "no such command is running").Advise("It may have ended. Use the id that Exec returned.")
	}
	return &controlpb.SignalResponse{}, process.(engine.Process).Signal(ctx, engine.Signal(r.Signal))
}

// follow passes on input and terminal sizes. In is nil if the command reads no input.
func follow(stream *execStream, process engine.Process, in io.WriteCloser) {
	for {
		m, err := stream.Receive()
		switch what := m.GetWhat().(type) {
		case *controlpb.ExecRequest_Resize:
			err = process.Resize(terminalSize(what.Resize.Rows, what.Resize.Cols))
		case *controlpb.ExecRequest_Stdin:
			if in != nil {
				_, err = in.Write(what.Stdin)
			}
		case *controlpb.ExecRequest_StdinEnd:
			if in != nil {
				_ = in.Close()
			}
		}
		if err != nil {
			if in != nil {
				_ = in.Close() // a client that disconnects ends the call too
			}
			return
		}
	}
}

// plainWord matches words that a shell takes as they are.
var plainWord = regexp.MustCompile(`^[\w./:=,@%+-]+$`)

// commandLine returns a command for people, quoted where a shell needs it.
func commandLine(args []string) string {
	words := protos(args, func(arg string) string {
		if plainWord.MatchString(arg) {
			return arg
		}
		return printable.Quote(arg)
	})
	return strings.Join(words, " ")
}
