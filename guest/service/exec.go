//go:build linux

package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/internal/wire"
	"osaurus-sandbox/guest/process"
)

// linger is how long what a command left behind may still write to its
// streams after the first process has ended (a `tee` at the end of its output,
// for example). Then it is killed.
const linger = 500 * time.Millisecond

type execStream = connect.BidiStream[guestpb.ExecRequest, guestpb.ExecResponse]

// Exec runs one command.
func (s *Service) Exec(ctx context.Context, stream *execStream) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if err := wire.CheckStart(start); err != nil {
		return err
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		return fault.New(fault.Rejected, "start command", "", fmt.Errorf("%d commands are running", wire.MaxCommands)).
			Advise("Wait until one has ended.")
	}
	c, err := s.begin(start, stream)
	if err != nil {
		return err
	}
	defer s.end(c)
	if err := c.send(&guestpb.ExecResponse{What: &guestpb.ExecResponse_Started{
		Started: &guestpb.Started{Id: c.child.ID(), Pid: int32(c.child.PID())},
	}}); err != nil {
		return err
	}
	return c.follow(ctx, start)
}

// Signal signals a command's process group.
func (s *Service) Signal(_ context.Context, r *connect.Request[guestpb.SignalRequest]) (*connect.Response[guestpb.SignalResponse], error) {
	const op, maxSignal = "send signal", 64
	sig := syscall.Signal(r.Msg.Signal)
	if sig < 1 || sig > maxSignal {
		return nil, fault.New(fault.InvalidArgs, op, "", fmt.Errorf("there is no signal %d", sig))
	}
	s.mu.Lock()
	child := s.running[r.Msg.Id]
	s.mu.Unlock()
	err := error(unix.ESRCH)
	if child != nil {
		err = child.Signal(sig)
	}
	if err != nil {
		return nil, fault.New(fault.NotFound, op, "", fmt.Errorf("command %d: %w", r.Msg.Id, err))
	}
	return connect.NewResponse(&guestpb.SignalResponse{}), nil
}

// command is one running Exec.
type command struct {
	child  *process.Child
	stream *execStream
	sendMu sync.Mutex // a stream has one sender at a time

	stdin   *os.File // nil without standard input
	outputs []*output
}

func (c *command) send(m *guestpb.ExecResponse) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.stream.Send(m)
}

// begin starts the command with pipes for the streams that the host wants.
func (s *Service) begin(start *guestpb.Start, stream *execStream) (_ *command, err error) {
	c := &command{stream: stream}
	args, env, dir := texts(start.Args), texts(start.Env), string(start.Dir)
	if dir == "" {
		dir = "/"
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	theirs := []int{null}
	defer func() {
		for _, fd := range theirs {
			_ = unix.Close(fd)
		}
		if err != nil {
			c.close()
		}
	}()
	spec := process.Spec{Args: args, Env: env, Dir: dir, Files: [3]uintptr{uintptr(null), uintptr(null), uintptr(null)}}
	for i, want := range []bool{start.Stdin, start.Stdout, start.Stderr} {
		if !want {
			continue
		}
		p := make([]int, 2)
		if err := unix.Pipe2(p, unix.O_CLOEXEC); err != nil {
			return nil, fault.New(fault.Unavailable, "make pipe", "", err)
		}
		if i == 0 {
			p[0], p[1] = p[1], p[0]
		}
		// Only our end is non-blocking: programs do not expect it of theirs.
		_ = unix.SetNonblock(p[0], true)
		ours := os.NewFile(uintptr(p[0]), [...]string{"stdin", "stdout", "stderr"}[i])
		theirs = append(theirs, p[1])
		spec.Files[i] = uintptr(p[1])
		if i == 0 {
			c.stdin = ours
		} else {
			c.outputs = append(c.outputs, &output{file: ours, wrap: wraps[i]})
		}
	}
	if c.child, err = s.keeper.Start(spec); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.running[c.child.ID()] = c.child
	s.mu.Unlock()
	return c, nil
}

// end leaves nothing of a command.
func (s *Service) end(c *command) {
	c.child.Release()
	c.close()
	s.mu.Lock()
	delete(s.running, c.child.ID())
	s.mu.Unlock()
}

func (c *command) close() {
	if c.stdin != nil {
		_ = c.stdin.Close()
	}
	for _, o := range c.outputs {
		_ = o.file.Close()
	}
}

// follow carries the streams until the command has ended, and ends it when the
// host is gone or the time is over.
func (c *command) follow(ctx context.Context, start *guestpb.Start) error {
	if c.stdin != nil {
		go c.feed()
	}
	var pumps sync.WaitGroup
	for _, o := range c.outputs {
		pumps.Go(func() { o.pump(c) })
	}
	g, err := grace(start.GraceNanos)
	if err != nil {
		return err
	}
	var timeout <-chan time.Time
	if start.TimeoutNanos > 0 {
		t := time.NewTimer(time.Duration(start.TimeoutNanos))
		defer t.Stop()
		timeout = t.C
	}
	timedOut := false
	select {
	case <-c.child.Done():
	case <-timeout:
		timedOut = true
		c.terminate(g)
	case <-ctx.Done():
		c.terminate(g)
	}
	late := time.AfterFunc(linger, c.child.Kill)
	defer late.Stop()
	for _, o := range c.outputs {
		o.finish()
	}
	pumps.Wait()
	c.child.Release()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	exit := &guestpb.Exit{TimedOut: timedOut}
	if st := c.child.Status(); st.Signaled() {
		exit.Signal = int32(st.Signal())
	} else {
		exit.Code = int32(st.ExitStatus())
	}
	return c.send(&guestpb.ExecResponse{What: &guestpb.ExecResponse_Exit{Exit: exit}})
}

// terminate asks the command to end and kills it if it does not.
func (c *command) terminate(grace time.Duration) {
	_ = c.child.Signal(unix.SIGTERM)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-c.child.Done():
	case <-t.C:
		c.child.Kill()
		<-c.child.Done()
	}
}

// feed carries standard input. A write to a pipe that is full waits, and with
// it the host.
func (c *command) feed() {
	defer c.stdin.Close()
	for {
		m, err := c.stream.Receive()
		if err != nil || m.GetStdinEnd() != nil {
			return
		}
		if _, err := c.stdin.Write(m.GetStdin()); err != nil {
			return
		}
	}
}

// output is one stream of a command to the host.
type output struct {
	file   *os.File
	wrap   func([]byte) *guestpb.ExecResponse
	ending atomic.Bool
}

var wraps = [...]func([]byte) *guestpb.ExecResponse{
	1: func(b []byte) *guestpb.ExecResponse {
		return &guestpb.ExecResponse{What: &guestpb.ExecResponse_Stdout{Stdout: b}}
	},
	2: func(b []byte) *guestpb.ExecResponse {
		return &guestpb.ExecResponse{What: &guestpb.ExecResponse_Stderr{Stderr: b}}
	},
}

// finish has the pump end at the end of the stream or, if somebody keeps the
// stream open without writing, after linger.
func (o *output) finish() {
	o.ending.Store(true)
	_ = o.file.SetReadDeadline(time.Now().Add(linger))
}

// pump carries the stream. It reads on only when the host has taken what was
// read before, so a slow host slows the command and costs one chunk.
func (o *output) pump(c *command) {
	buf := make([]byte, wire.Chunk)
	for {
		n, err := o.file.Read(buf)
		if n > 0 && c.send(o.wrap(buf[:n])) != nil {
			return // the host is gone: the call's context says so too
		}
		if err != nil && (o.ending.Load() || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return
		}
		if o.ending.Load() {
			_ = o.file.SetReadDeadline(time.Now().Add(linger))
		}
	}
}

func texts(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}
