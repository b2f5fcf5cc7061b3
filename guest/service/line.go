//go:build linux

package service

import (
	"bufio"
	"context"
	"net"

	"google.golang.org/protobuf/proto"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc"
)

// serve runs the host's commands on a line until the line is closed.
func (l *line) serve(s *Service) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	starts := make(chan *guestpb.ExecRequest)
	go func() {
		defer cancel() // ends the running command if the host hangs up
		defer close(starts)
		receive(ctx, bufio.NewReader(l.conn), starts)
	}()
	for first := range starts {
		if err := s.execWithout(ctx, first.GetStart(), l); err != nil && l.fail(err) != nil {
			return
		}
		l.buf = protocol.Kept(l.buf)
	}
}

// execWithout is exec without input. It recovers from a panic, which then fails only this command.
func (s *Service) execWithout(ctx context.Context, start *guestpb.Start, l *line) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.Newf(fault.Execution, "run command", "", "the guest's program failed: %v", p)
		}
	}()
	if start.GetStdin() || start.GetPty() != nil {
		return fault.Newf(fault.InvalidArgs, "run command", "", "a command on a line takes no input")
	}
	return s.exec(ctx, start, l)
}

// receive reads requests from a line. It keeps reading while a command runs, to notice the end of
// the line.
func receive(ctx context.Context, from *bufio.Reader, starts chan<- *guestpb.ExecRequest) {
	var buf []byte
	for {
		kind, b, err := protocol.ReadFrame(from, buf)
		if err != nil || kind != protocol.FrameMessage {
			return
		}
		buf = protocol.Kept(b)
		m := new(guestpb.ExecRequest)
		if proto.Unmarshal(b, m) != nil {
			return
		}
		select {
		case starts <- m:
		case <-ctx.Done():
			return
		}
	}
}

// line is an execStream without input.
type line struct {
	conn net.Conn
	buf  []byte
}

// Send implements execStream.
func (l *line) Send(m *guestpb.ExecResponse) error { return l.write(protocol.FrameMessage, m) }

// fail sends an error: the command did not start, or its exit is not known.
func (l *line) fail(err error) error { return l.write(protocol.FrameFault, faultrpc.Fault(err)) }

func (l *line) write(kind protocol.Frame, m proto.Message) (err error) {
	if l.buf, err = protocol.AppendFrame(l.buf[:0], kind, m); err != nil {
		return err
	}
	_, err = l.conn.Write(l.buf)
	return err
}
