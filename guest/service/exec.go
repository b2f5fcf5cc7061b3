//go:build linux

package service

import (
	"cmp"
	"context"
	"sync"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
)

// execStream sends a command's output and exit to the host.
type execStream interface {
	Send(*guestpb.ExecResponse) error
}

// inputStream is an execStream that also receives input.
type inputStream interface {
	execStream
	Receive() (*guestpb.ExecRequest, error)
}

// Exec runs one command, with input from the stream.
func (s *Service) Exec(ctx context.Context, stream *connect.BidiStream[guestpb.ExecRequest, guestpb.ExecResponse]) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	return s.exec(ctx, first.GetStart(), stream)
}

// ExecWithoutInput runs one command.
func (s *Service) ExecWithoutInput(ctx context.Context, start *guestpb.Start, stream *connect.ServerStream[guestpb.ExecResponse]) error {
	if start.Stdin || start.Pty != nil {
		return fault.Newf(fault.InvalidArgs, "run command", "", "a command with input or a terminal needs Exec")
	}
	return s.exec(ctx, start, stream)
}

// exec runs a command and sends its exit.
func (s *Service) exec(ctx context.Context, start *guestpb.Start, stream execStream) error {
	release, err := s.slots.take(string(start.Room))
	if err != nil {
		return err
	}
	defer release()
	c, err := s.begin(ctx, start, stream)
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

// Signal sends a signal to a command's process group.
func (s *Service) Signal(_ context.Context, r *guestpb.SignalRequest) (*guestpb.SignalResponse, error) {
	const op = "send signal"
	sig := syscall.Signal(r.Signal)
	if sig < 1 || sig > protocol.MaxSignal {
		return nil, fault.Newf(fault.InvalidArgs, op, "", "unknown signal %d", sig)
	}
	s.mu.Lock()
	child := s.running[r.Id]
	s.mu.Unlock()
	err := error(unix.ESRCH)
	if child != nil {
		err = child.Signal(sig)
	}
	if err != nil {
		return nil, fault.Newf(fault.NotFound, op, "", "command %d: %w", r.Id, err)
	}
	return &guestpb.SignalResponse{}, nil
}

// follow copies the streams until the command has ended. It ends the command when the host is gone
// or a time limit is over.
func (c *command) follow(ctx context.Context, start *guestpb.Start) error {
	if input, ok := c.stream.(inputStream); ok && (c.child.Terminal != nil || c.child.Pipes[0] != nil) {
		go c.feed(input)
	}
	var pumps sync.WaitGroup
	for _, o := range c.outputs {
		pumps.Go(func() { o.pump(c) })
	}
	grace := cmp.Or(time.Duration(start.GraceNanos), protocol.DefaultGrace)
	timeout := time.NewTimer(limit(start.TimeoutNanos))
	defer timeout.Stop()
	exit := &guestpb.Exit{}
	select {
	case <-c.child.Done():
	case <-timeout.C:
		exit.TimedOut, exit.Oom = true, c.starved()
		c.terminate(grace)
	case <-c.idle.C:
		exit.Idle, exit.Oom = true, c.starved()
		c.terminate(grace)
	case <-ctx.Done():
		c.terminate(grace)
	}
	late := time.AfterFunc(engine.Linger, c.child.Kill)
	defer late.Stop()
	for _, o := range c.outputs {
		o.finish()
	}
	pumps.Wait()
	c.child.Release()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := c.sum(exit); err != nil {
		return err
	}
	return c.send(&guestpb.ExecResponse{What: &guestpb.ExecResponse_Exit{Exit: exit}})
}

// starved reports whether the command's room is stalled by lack of memory, which explains a
// timeout.
func (c *command) starved() bool { return c.room != nil && c.room.Starved() }

// sum fills in how the command ended.
func (c *command) sum(exit *guestpb.Exit) error {
	st := c.child.Status()
	if st.Signaled() {
		exit.Signal = int32(st.Signal())
	} else {
		exit.Code = int32(st.ExitStatus())
	}
	for _, o := range c.outputs {
		if o.stderr {
			exit.StderrTruncated = o.tail.dropped
		} else {
			exit.StdoutTruncated = o.tail.dropped
		}
	}
	if c.room == nil {
		return nil
	}
	killed := process.Killed(st)
	oom, pids, quota := c.met(killed)
	exit.Oom, exit.Pids, exit.Quota = exit.Oom || oom, pids, quota
	if !killed || exit.Oom || exit.TimedOut || exit.Idle {
		return nil
	}
	if !c.room.Ending() {
		return nil
	}
	select {
	case <-c.room.Dead(): // so that the next command starts a new room
	case <-time.After(deathLimit):
	}
	return fault.Newf(fault.Unavailable, "run command", c.room.User(), "the room has ended, with all its processes").
		Advise("Run the command again: that starts a new room.")
}

// deathLimit is how long the end of a room's last processes is awaited.
const deathLimit = 10 * time.Second

// terminate sends SIGTERM and kills the command if it has not ended after grace.
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
