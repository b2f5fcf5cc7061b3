package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault/faultrpc"
	"osaurus-sandbox/internal/fault/faultrpc/faultpb"
)

// idleLines is how many idle lines are kept; more commands seldom run at once.
// Each costs the guest two goroutines.
const idleLines = 8

// lines is a pool of command connections to the guest. They avoid the cost of an HTTP/2 stream for
// each command.
type lines struct {
	conns *conns
	key   protocol.Key

	mu   sync.Mutex
	idle []*line
}

// line is one connection, with one command at a time.
type line struct {
	conn  net.Conn
	from  *bufio.Reader
	buf   []byte
	ended bool       // the command's last message has come
	idle  chan error // from watch
}

// take returns an idle line. If it breaks later, its command fails without a retry: lines only
// break when their guest ends.
func (l *lines) take(ctx context.Context) (*line, error) {
	for {
		one := l.spare()
		if one == nil {
			return l.open(ctx)
		}
		if one.quiet() {
			return one, nil
		}
		_ = one.conn.Close()
	}
}

func (l *lines) spare() *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.idle) - 1
	if last < 0 {
		return nil
	}
	one := l.idle[last]
	l.idle = l.idle[:last]
	return one
}

// give returns a line to the pool. If its command may still run, the line is closed, which ends the command.
func (l *lines) give(one *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !one.ended || len(l.idle) >= idleLines {
		_ = one.conn.Close()
		return
	}
	one.buf = protocol.Kept(one.buf)
	one.watch()
	l.idle = append(l.idle, one)
}

// open dials a line.
func (l *lines) open(ctx context.Context) (*line, error) {
	conn, err := l.conns.enter(ctx, protocol.DataHeader{Key: l.key})
	if err != nil {
		return nil, err
	}
	return &line{conn: conn, from: bufio.NewReader(conn)}, nil
}

// watch reads while no command runs, to notice that the line was closed.
func (l *line) watch() {
	l.idle = make(chan error, 1)
	go func() {
		_, err := l.from.Peek(1)
		l.idle <- err
	}()
}

// quiet stops watch and reports whether it read nothing.
func (l *line) quiet() bool {
	if l.conn.SetReadDeadline(time.Unix(1, 0)) != nil { // long ago
		return false
	}
	err := <-l.idle
	return errors.Is(err, os.ErrDeadlineExceeded) && l.conn.SetReadDeadline(time.Time{}) == nil
}

// start sends a command.
func (l *line) start(s *guestpb.Start) (err error) {
	l.ended = false
	l.buf, err = protocol.AppendFrame(l.buf[:0], protocol.FrameMessage, &guestpb.ExecRequest{What: &guestpb.ExecRequest_Start{Start: s}})
	if err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	_, err = l.conn.Write(l.buf)
	return err
}

// Receive implements answers. Its errors look like Connect's.
func (l *line) Receive() (*guestpb.ExecResponse, error) {
	kind, b, err := protocol.ReadFrame(l.from, l.buf)
	l.buf = b
	if err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf("the connection to the guest was lost: %w", err))
	}
	if kind == protocol.FrameFault {
		f := new(faultpb.Fault)
		if err := proto.Unmarshal(b, f); err != nil {
			return nil, connect.NewError(connect.CodeInternal, err)
		}
		l.ended = true
		return nil, faultrpc.Received(f)
	}
	m := new(guestpb.ExecResponse)
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, connect.NewError(connect.CodeInternal, err)
	}
	l.ended = m.GetExit() != nil
	return m, nil
}
