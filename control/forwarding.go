package control

import (
	"context"
	"errors"
	"io"
	"net"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

// Forwarding gives access to ports of an agent's room until it is closed or the daemon
// ends.
type Forwarding struct {
	client *Client
	lasts  context.Context // ends with the forwarding
	end    context.CancelCauseFunc
	id     string
}

// Forward forwards ports of an agent's room. It starts the guest if necessary.
func (c *Client) Forward(ctx context.Context, agent string, ports []config.Port) (*Forwarding, error) {
	ctx, end := context.WithCancelCause(ctx)
	request := &controlpb.ForwardPortsRequest{Agent: agent}
	for _, p := range ports {
		request.Ports = append(request.Ports, uint32(p))
	}
	stream, err := c.Ports.Forward(ctx, request)
	if err == nil && !stream.Receive() {
		err = forwardEnd(stream.Err())
	}
	if err != nil {
		end(err)
		return nil, err
	}
	id := stream.Msg().Id
	go func() {
		for stream.Receive() { // no more messages come
		}
		end(forwardEnd(stream.Err()))
		_ = stream.Close()
	}()
	return &Forwarding{c, ctx, end, id}, nil
}

// forwardEnd returns the error of a forwarding that ended by itself.
func forwardEnd(err error) error {
	if err != nil {
		return err
	}
	return fault.Newf(fault.Unavailable, "forward ports", "", "the daemon has ended").Advise("Run it again.")
}

// Done is closed when the forwarding has ended, by Close or with the daemon.
func (f *Forwarding) Done() <-chan struct{} { return f.lasts.Done() }

// Err returns why it ended.
func (f *Forwarding) Err() error { return context.Cause(f.lasts) }

// Close ends all connections.
func (f *Forwarding) Close() { f.end(nil) }

// Connect connects conn to a forwarded port, and closes it when the other side or the
// forwarding has ended. It fails with NotFound if nothing listens. A half-closed conn
// still gets the answer.
func (f *Forwarding) Connect(ctx context.Context, port config.Port, conn net.Conn) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(f.lasts, func() { cancel(nil) })()
	stream, err := f.client.Ports.Connect(ctx)
	if err != nil {
		cancel(nil)
		_ = conn.Close()
		return err
	}
	// The transport checks the context only after the end of the request, and conn not at
	// all.
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
		defer func() { _ = stream.CloseRequest() }()
		failed := stream.Send(&controlpb.ConnectPortRequest{What: &controlpb.ConnectPortRequest_To{To: &controlpb.ConnectTo{Forward: f.id, Port: uint32(port)}}})
		if failed != nil {
			return // Receive has the reason
		}
		_, err := io.Copy(inChunks(func(b []byte) error {
			failed = stream.Send(&controlpb.ConnectPortRequest{What: &controlpb.ConnectPortRequest_Data{Data: b}})
			return failed
		}), conn)
		if err != nil && failed == nil {
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
			return nil // like errGone
		}
	}
}

// errGone is the cause when conn itself has failed.
var errGone = errors.New("the client of the port is gone")
