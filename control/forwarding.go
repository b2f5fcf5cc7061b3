package control

import (
	"context"
	"errors"
	"io"
	"net"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

// Forwarding is a way to ports of an agent's room, until it is closed or the daemon ends.
type Forwarding struct {
	client *Client
	stream *connect.ServerStreamForClient[controlpb.ForwardPortsResponse]
	lasts  context.Context // for as long as it does
	cancel context.CancelFunc
	id     string
	done   chan struct{}
	err    error // after done
}

// Forward opens a way to ports of an agent's room; the guest is started if need be.
func (c *Client) Forward(ctx context.Context, agent string, ports []config.Port) (*Forwarding, error) {
	ctx, cancel := context.WithCancel(ctx)
	request := &controlpb.ForwardPortsRequest{Agent: agent}
	for _, p := range ports {
		request.Ports = append(request.Ports, uint32(p))
	}
	stream, err := c.Ports.Forward(ctx, request)
	if err == nil && !stream.Receive() {
		err = forwardEnd(stream.Err())
	}
	if err != nil {
		cancel()
		return nil, err
	}
	f := &Forwarding{client: c, stream: stream, lasts: ctx, cancel: cancel, id: stream.Msg().Id, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		defer cancel()
		for stream.Receive() { // nothing more is said
		}
		f.err = forwardEnd(stream.Err())
		_ = stream.Close()
	}()
	return f, nil
}

// forwardEnd is why a forwarding has ended that should have gone on.
func forwardEnd(err error) error {
	if err != nil {
		return err
	}
	return fault.Newf(fault.Unavailable, "forward ports", "", "the daemon has ended").Advise("Run it again.")
}

// Done is closed when the way is closed: by Close, or because the daemon has ended.
func (f *Forwarding) Done() <-chan struct{} { return f.done }

// Err is why it is closed, after Done.
func (f *Forwarding) Err() error { <-f.done; return f.err }

// Close ends all connections.
func (f *Forwarding) Close() {
	f.cancel()
	<-f.done
}

// Connect carries a connection to a port that is forwarded, and closes it when the other
// side or the forwarding has ended, or cannot be reached: NotFound if nothing listens there. The end of what
// the connection sends is passed on, and what is answered then still comes.
func (f *Forwarding) Connect(ctx context.Context, port config.Port, conn net.Conn) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(f.lasts, func() { cancel(nil) })()
	stream, err := f.client.Ports.Connect(ctx)
	if err != nil {
		cancel(nil)
		_ = conn.Close()
		return err
	}
	// The transport looks at the context only when the request has ended, and a connection
	// whose other end has stopped to read not at all.
	context.AfterFunc(ctx, func() {
		_ = stream.CloseRequest()
		_ = conn.Close()
	})
	sent := make(chan struct{})
	defer func() {
		cancel(nil)
		_ = conn.Close()
		<-sent
	}()
	go func() {
		defer close(sent)
		if err := f.send(stream, port, conn); err != nil {
			cancel(errGone)
		}
	}()
	for {
		m, err := stream.Receive()
		switch {
		case errors.Is(err, io.EOF) || context.Cause(ctx) == errGone:
			return nil
		case err != nil:
			return err
		}
		if _, err := conn.Write(m.Data); err != nil {
			return nil // errGone, too
		}
	}
}

// errGone is why a connection is given up whose other end is this side's caller.
var errGone = errors.New("who has connected is gone")

// send sends what a connection says until its end, and fails if it broke. If something cannot
// be sent, Receive has the reason.
func (f *Forwarding) send(stream *connect.BidiStreamForClientSimple[controlpb.ConnectPortRequest, controlpb.ConnectPortResponse], port config.Port, conn net.Conn) error {
	defer func() { _ = stream.CloseRequest() }()
	request := &controlpb.ConnectPortRequest{What: &controlpb.ConnectPortRequest_To{To: &controlpb.ConnectTo{Forward: f.id, Port: uint32(port)}}}
	for buf := make([]byte, chunk); ; {
		if stream.Send(request) != nil {
			return nil
		}
		n, err := conn.Read(buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		request = &controlpb.ConnectPortRequest{What: &controlpb.ConnectPortRequest_Data{Data: buf[:n]}}
	}
}
