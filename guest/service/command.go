//go:build linux

package service

import (
	"cmp"
	"context"
	"os"
	"sync"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/room"
)

// command is one running Exec call.
type command struct {
	child  *process.Child
	stream execStream
	sendMu sync.Mutex // serializes Send on the stream

	outputs []*output
	idle    idle

	room *room.Room // nil for the guest's own root
	met  func(killed bool) (oom, pids, quota bool)
}

func (c *command) send(m *guestpb.ExecResponse) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.stream.Send(m)
}

// begin starts the command with a terminal, or with pipes for the streams that the host asked for.
func (s *Service) begin(ctx context.Context, start *guestpb.Start, stream execStream) (_ *command, err error) {
	c := &command{stream: stream}
	spec := process.Spec{Args: protocol.Texts(start.Args), Env: protocol.Texts(start.Env), Dir: protocol.Folder("/", start.Dir)}
	if err := s.locate(ctx, c, start, &spec); err != nil {
		return nil, err
	}
	if c.room != nil {
		release, err := c.room.Admit(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	if start.Pty != nil {
		spec.Terminal = &process.Size{Rows: uint16(start.Pty.Rows), Cols: uint16(start.Pty.Cols)}
		spec.Env = process.MergeEnv(spec.Env, []string{"TERM=" + cmp.Or(start.Pty.Term, defaultTerm)})
	}
	for i, want := range []bool{start.Stdin, start.Stdout, start.Stderr} {
		if want {
			spec.Streams[i] = process.Pipe
		}
	}
	if c.child, err = s.processes.Start(spec); err != nil {
		return nil, err
	}
	for i, f := range []*os.File{c.child.Terminal, c.child.Pipes[1], c.child.Pipes[2]} {
		if f != nil {
			c.outputs = append(c.outputs, newOutput(f, i == 2, start.MaxOutputBytes))
		}
	}
	c.idle = newIdle(start.IdleTimeoutNanos)
	s.mu.Lock()
	s.running[c.child.ID()] = c.child
	s.mu.Unlock()
	return c, nil
}

// locate sets the place and environment of the command.
func (s *Service) locate(ctx context.Context, c *command, start *guestpb.Start, spec *process.Spec) error {
	if len(start.Room) == 0 && !start.ReadOnly {
		return nil
	}
	var err error
	if c.room, err = s.find(ctx, string(start.Room)); err != nil {
		return err
	}
	c.met = c.room.Watch()
	spec.Env = process.MergeEnv(c.room.Environment(start.RoomRoot), spec.Env)
	if !start.RoomRoot {
		spec.Dir = protocol.Folder(c.room.Home(), start.Dir)
	}
	spec.Place = c.room.Place(start.RoomRoot)
	switch {
	case start.Plugin != "":
		if spec.Place, err = c.room.PluginPlace(config.PluginID(start.Plugin), start.OwnNetwork, start.Address); err != nil {
			return err
		}
	case start.ReadOnly:
		spec.Place = c.room.ReadOnlyPlace(start.RoomRoot, spec.Dir)
	}
	return nil
}

// defaultTerm is a terminal type that nearly all terminals support.
const defaultTerm = "xterm-256color"

// end kills what is left of a command and releases its resources.
func (s *Service) end(c *command) {
	c.child.Release()
	c.idle.Stop()
	c.child.CloseStreams()
	s.mu.Lock()
	delete(s.running, c.child.ID())
	s.mu.Unlock()
}

// endOfInput is the end-of-file character (VEOF) of a new terminal.
const endOfInput = 4

// feed passes input, resizes and signals from the host to the command. A write to a full pipe
// blocks, which slows the host down.
func (c *command) feed(from inputStream) {
	terminal := c.child.Terminal
	stdin := cmp.Or(terminal, c.child.Pipes[0])
	for {
		m, err := from.Receive()
		if err != nil || m.GetStdinEnd() != nil {
			if terminal == nil {
				_ = stdin.Close()
				return
			}
			if err != nil {
				return
			}
			_, _ = stdin.Write([]byte{endOfInput})
			continue // the terminal can still be resized
		}
		c.idle.touch()
		if size := m.GetResize(); size != nil {
			if terminal != nil {
				_ = process.Resize(terminal, process.Size{Rows: uint16(size.Rows), Cols: uint16(size.Cols)})
			}
			continue
		}
		if _, err := stdin.Write(m.GetStdin()); err != nil {
			return
		}
	}
}
