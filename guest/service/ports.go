//go:build linux

package service

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"

	"connectrpc.com/connect"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/guestpb/guestpbconnect"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
)

const opConnect = "connect to port"

// Dial connects to a port of a user's room. The channel is closed when the room has ended.
type Dial func(ctx context.Context, user string, port uint16) (*net.TCPConn, <-chan struct{}, error)

func (s *Service) dial(ctx context.Context, user string, port uint16) (*net.TCPConn, <-chan struct{}, error) {
	r, err := s.find(ctx, user)
	if err != nil {
		return nil, nil, err
	}
	conn, err := r.Dial(ctx, port)
	return conn, r.Dead(), err
}

// ServePorts registers the Ports service.
func ServePorts(mux *http.ServeMux, dial Dial) {
	mux.Handle(guestpbconnect.NewPortsHandler(ports{connectionSlots(), dial}, options()...))
}

// ports implements the Ports service.
type ports struct {
	slots *slots
	dial  Dial
}

type connectStream = *connect.BidiStream[guestpb.ConnectRequest, guestpb.ConnectResponse]

// Connect carries a connection to a port of a room. It reads from either side only what the other
// has taken.
func (p ports) Connect(ctx context.Context, stream connectStream) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	to := first.GetTo()
	if to.GetPort() == 0 || to.GetPort() > math.MaxUint16 {
		return fault.Newf(fault.InvalidArgs, opConnect, "", "%d is not a port", to.GetPort())
	}
	release, err := p.slots.take(to.User)
	if err != nil {
		return err
	}
	defer release()
	conn, dead, err := p.dial(ctx, to.User, uint16(to.Port))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-dead:
			_ = conn.Close()
		case <-done:
		}
	}()
	err = carry(conn, stream, dead)
	if notify.Closed(dead) {
		return fault.Newf(fault.Unavailable, opConnect, to.User, "the room has ended").Advise("Connect again: that starts a new room.")
	}
	return err
}

// carry copies in both directions until both have ended.
func carry(conn *net.TCPConn, stream connectStream, dead <-chan struct{}) error {
	if err := stream.Send(&guestpb.ConnectResponse{}); err != nil {
		return err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		feed(conn, stream)
	}()
	var err error
	for b := make([]byte, protocol.Chunk); err == nil; {
		var n int
		if n, err = conn.Read(b); n == 0 {
			continue
		}
		if err := stream.Send(&guestpb.ConnectResponse{Data: b[:n]}); err != nil {
			return err
		}
	}
	if errors.Is(err, net.ErrClosed) {
		return err
	}
	if failed := stream.Send(&guestpb.ConnectResponse{End: true}); failed != nil || err != io.EOF {
		return failed // a reset ends both sides
	}
	select {
	case <-sent:
	case <-dead:
	}
	return nil
}

// feed sends what comes from the host to the server, until either ends.
func feed(conn *net.TCPConn, stream connectStream) {
	for {
		m, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			_ = conn.CloseWrite()
			return
		}
		if err != nil {
			_ = conn.Close()
			return
		}
		if _, err := conn.Write(m.GetData()); err != nil {
			return
		}
	}
}
