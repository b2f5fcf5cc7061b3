package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/fault/faultrpc"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/internal/wire"
)

// Command is a program to run in the guest, as root or in a room. Like exec.Cmd, it is told
// where its streams go: the guest is read only as fast as they are written.
type Command struct {
	// Args are the program and its arguments. A program without a slash is
	// looked for in the PATH of Env.
	Args []string
	// Env is the whole environment, as NAME=value; nil means DefaultEnv. In a
	// room it adds to the login environment.
	Env []string
	Dir string // empty means /, and in a room the home

	// Room is whose room it runs in, as that user; empty means as root of the
	// guest. RoomRoot runs it as root of the room, for its system packages.
	Room     config.LinuxUser
	RoomRoot bool
	// Terminal, if not nil, has it run on a terminal instead of pipes: all
	// output is Stdout then.
	Terminal *Terminal

	// Stdin may be nil: the command then reads nothing. A Read of it may
	// still be under way when Wait returns.
	Stdin io.Reader
	// Stdout and Stderr may be nil, which discards in the guest. They are
	// written by one goroutine, so they may be the same. If a Write fails, the
	// command is ended.
	Stdout, Stderr io.Writer

	// Timeout, if not 0, is how long the command may run. The guest itself
	// then ends it.
	Timeout time.Duration
	// IdleTimeout, if not 0, is how long it may neither read nor write.
	IdleTimeout time.Duration
	// MaxOutput, if not 0, bounds the bytes of Stdout and of Stderr: the first
	// 40 % are written as they come and the last 60 % at the end.
	MaxOutput uint64
	// Grace is how long the command may live on after SIGTERM when it is ended
	// (by Timeout, or by its context); 0 means five seconds.
	Grace time.Duration
}

// Terminal is a terminal for a command.
type Terminal struct {
	Rows, Cols int
	Term       string // the variable TERM
}

// DefaultEnv is the environment of a command that was given none.
func DefaultEnv() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/sh", "LANG=C.UTF-8",
	}
}

// Exit is how a command ended.
type Exit struct {
	Code     int    // its exit code, unless a signal ended it
	Signal   Signal // the signal that ended it, or 0
	TimedOut bool   // it was ended because its Timeout was over
	Idle     bool   // it was ended because its IdleTimeout was over

	// While it ran, its room was at its limit of memory (and a process was
	// killed for it), of processes (and one was not started), or of disk.
	OOM, PIDs, Quota bool
	// Bytes that were left out because of MaxOutput.
	StdoutTruncated, StderrTruncated uint64
}

// Status is the one number that a shell would show: 128 plus the signal, or
// the code.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// Signal is a signal by its Linux number, whatever the host is.
type Signal int

const (
	SIGHUP   Signal = 1
	SIGINT   Signal = 2
	SIGQUIT  Signal = 3
	SIGKILL  Signal = 9
	SIGUSR1  Signal = 10
	SIGUSR2  Signal = 12
	SIGTERM  Signal = 15
	SIGCONT  Signal = 18
	SIGSTOP  Signal = 19
	SIGTSTP  Signal = 20
	SIGWINCH Signal = 28
)

func (s Signal) String() string { return "signal " + strconv.Itoa(int(s)) }

// HostSignal translates a signal of this host; it returns 0 for one that has
// no counterpart here.
func HostSignal(s syscall.Signal) Signal {
	return map[syscall.Signal]Signal{
		syscall.SIGHUP: SIGHUP, syscall.SIGINT: SIGINT, syscall.SIGQUIT: SIGQUIT, syscall.SIGKILL: SIGKILL,
		syscall.SIGUSR1: SIGUSR1, syscall.SIGUSR2: SIGUSR2, syscall.SIGTERM: SIGTERM, syscall.SIGCONT: SIGCONT,
		syscall.SIGSTOP: SIGSTOP, syscall.SIGTSTP: SIGTSTP, syscall.SIGWINCH: SIGWINCH,
	}[s]
}

// Process is a command that has been started.
type Process struct {
	client *Client
	cmd    Command
	name   string
	id     uint64
	pid    int
	stream *connect.BidiStreamForClient[guestpb.ExecRequest, guestpb.ExecResponse]
	saying sync.Mutex // of one thing at a time
	cancel context.CancelFunc
	done   chan struct{}
	exit   Exit  // after done
	err    error // after done
}

// Exec starts a command and returns when it runs. Cancelling the context ends
// it and everything that it started (SIGTERM, then SIGKILL after its grace).
// When its first process ends, what else it left running is ended too.
//
// It fails with NotFound if there is no such program or directory, Rejected
// if the program may not be executed or too many commands run at once, and
// InvalidArgs if the command is malformed.
func (c *Client) Exec(ctx context.Context, cmd Command) (*Process, error) {
	const op = "run command"
	start := cmd.proto()
	if err := wire.CheckStart(start); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Process{client: c, cmd: cmd, name: faultrpc.Clip(cmd.Args[0]), stream: c.rpc.Exec(ctx), cancel: cancel, done: make(chan struct{})}
	err := p.stream.Send(&guestpb.ExecRequest{What: &guestpb.ExecRequest_Start{Start: start}})
	if err != nil && !errors.Is(err, io.EOF) { // with EOF, Receive has the reason
		cancel()
		return nil, wire.Decode(op, p.name, err)
	}
	first, err := p.stream.Receive()
	if err == nil && first.GetStarted() == nil {
		err = errors.New("the guest did not say that it was started")
	}
	if err != nil {
		cancel()
		return nil, wire.Decode(op, p.name, err)
	}
	p.id, p.pid = first.GetStarted().Id, int(first.GetStarted().Pid)
	if cmd.Stdin != nil || cmd.Terminal != nil { // there is more to say
		// The transport looks at the context only when the request has ended.
		context.AfterFunc(ctx, func() { _ = p.stream.CloseRequest() })
	} else {
		_ = p.stream.CloseRequest()
	}
	if cmd.Stdin != nil {
		go p.feed()
	}
	go p.follow(ctx)
	return p, nil
}

// Run is Exec and Wait.
func (c *Client) Run(ctx context.Context, cmd Command) (Exit, error) {
	p, err := c.Exec(ctx, cmd)
	if err != nil {
		return Exit{}, err
	}
	return p.Wait()
}

func (cmd Command) proto() *guestpb.Start {
	if cmd.Env == nil && cmd.Room == "" {
		cmd.Env = DefaultEnv()
	}
	start := &guestpb.Start{
		Args: byteSlices(cmd.Args), Env: byteSlices(cmd.Env), Dir: []byte(cmd.Dir),
		Stdin: cmd.Stdin != nil, Stdout: cmd.Stdout != nil, Stderr: cmd.Stderr != nil,
		TimeoutNanos: int64(cmd.Timeout), GraceNanos: int64(cmd.Grace), IdleTimeoutNanos: int64(cmd.IdleTimeout),
		Room: []byte(cmd.Room), RoomRoot: cmd.RoomRoot, MaxOutputBytes: cmd.MaxOutput,
	}
	if t := cmd.Terminal; t != nil {
		start.Pty = &guestpb.Pty{Rows: uint32(t.Rows), Cols: uint32(t.Cols), Term: t.Term}
	}
	return start
}

func byteSlices(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}

// PID is the command's process id in the guest.
func (p *Process) PID() int { return p.pid }

// Done is closed when Wait would not block.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns when the command has ended and all its output is written. It
// may be called often. An exit code other than 0 is no error; the error says
// that the command's end is not known, or that its output could not be written.
func (p *Process) Wait() (Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Signal sends a signal to the command's process group. It fails with
// NotFound when the command has ended.
func (p *Process) Signal(ctx context.Context, s Signal) error {
	_, err := call(ctx, "send "+s.String(), p.client.rpc.Signal, &guestpb.SignalRequest{Id: p.id, Signal: int32(s)})
	return err
}

// Resize changes the size of the command's terminal. Behind input that nobody
// reads it waits until the command ends.
func (p *Process) Resize(rows, cols int) error {
	if p.cmd.Terminal == nil {
		return fault.New(fault.InvalidArgs, "resize terminal", p.name, errors.New("the command has none"))
	}
	return wire.Decode("resize terminal", p.name, p.say(&guestpb.ExecRequest{What: &guestpb.ExecRequest_Resize{
		Resize: &guestpb.Resize{Rows: uint32(rows), Cols: uint32(cols)},
	}}))
}

func (p *Process) say(r *guestpb.ExecRequest) error {
	p.saying.Lock()
	defer p.saying.Unlock()
	return p.stream.Send(r)
}

// feed carries standard input until it ends or the command does.
func (p *Process) feed() {
	buf := make([]byte, wire.Chunk)
	for {
		n, err := p.cmd.Stdin.Read(buf)
		if n > 0 && p.say(&guestpb.ExecRequest{What: &guestpb.ExecRequest_Stdin{Stdin: buf[:n]}}) != nil {
			return
		}
		if err != nil {
			// A broken reader ends the input; that it broke is its owner's to see.
			_ = p.say(&guestpb.ExecRequest{What: &guestpb.ExecRequest_StdinEnd{StdinEnd: &guestpb.StdinEnd{}}})
			return
		}
	}
}

// follow carries output until the command ends.
func (p *Process) follow(ctx context.Context) {
	defer close(p.done)
	defer p.cancel()
	for {
		m, err := p.stream.Receive()
		if err != nil {
			p.err = wire.Decode("run command", p.name, streamEnd(ctx, err))
			return
		}
		switch w := m.What.(type) {
		case *guestpb.ExecResponse_Stdout:
			p.err = write(p.cmd.Stdout, "output", w.Stdout)
		case *guestpb.ExecResponse_Stderr:
			p.err = write(p.cmd.Stderr, "error output", w.Stderr)
		case *guestpb.ExecResponse_Exit:
			p.exit = Exit{
				Code: int(w.Exit.Code), Signal: Signal(w.Exit.Signal), TimedOut: w.Exit.TimedOut, Idle: w.Exit.Idle,
				OOM: w.Exit.Oom, PIDs: w.Exit.Pids, Quota: w.Exit.Quota,
				StdoutTruncated: w.Exit.StdoutTruncated, StderrTruncated: w.Exit.StderrTruncated,
			}
			return
		}
		if p.err != nil {
			return
		}
	}
}

// streamEnd says what it means that a stream ended before its last message.
func streamEnd(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return connect.NewError(connect.CodeUnavailable, errors.New("the guest did not say how it ended"))
	case connect.CodeOf(err) == connect.CodeCanceled && ctx.Err() == nil:
		// That is what the transport says of a connection that broke.
		return connect.NewError(connect.CodeUnavailable, errors.New("the connection to the guest was lost"))
	}
	return err
}

func write(w io.Writer, name string, b []byte) error {
	if w == nil {
		return nil
	}
	if _, err := w.Write(b); err != nil {
		return fault.New(fault.Execution, "write command's "+name, "", fmt.Errorf("%d bytes: %w", len(b), err))
	}
	return nil
}
