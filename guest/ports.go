package guest

import (
	"context"
	"io"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
)

// connectLimit bounds how long a guest may take to connect, which itself waits 30 s for a server.
const connectLimit = 45 * time.Second

// connection implements engine.Connection.
type connection struct {
	client *Client
	stream *connect.BidiStreamForClientSimple[guestpb.ConnectRequest, guestpb.ConnectResponse]
	ctx    context.Context
	cancel context.CancelCauseFunc
	data   []byte // received, but not read yet
	err    error  // of Receive
}

// ConnectPort implements engine.Engine.
func (c *Client) ConnectPort(ctx context.Context, user config.LinuxUser, port config.Port) (engine.Connection, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	conn := &connection{client: c, ctx: ctx, cancel: cancel}
	late := time.AfterFunc(connectLimit, func() { cancel(ErrSilent) })
	to := &guestpb.ConnectTo{User: string(user), Port: uint32(port)}
	var err error
	if conn.stream, err = c.ports.Connect(ctx); err == nil { // which a server accepts before the first answer
		_, err = openStream(ctx, conn.stream, &guestpb.ConnectRequest{What: &guestpb.ConnectRequest_To{To: to}})
	}
	if !late.Stop() && err == nil {
		err = ErrSilent
	}
	if err != nil {
		defer cancel(nil)
		return nil, conn.fault(err)
	}
	return conn, nil
}

func (c *connection) fault(err error) error {
	return c.client.fault(c.ctx, streamEnd(c.ctx, err))
}

// Read implements engine.Connection.
func (c *connection) Read(b []byte) (int, error) {
	for len(c.data) == 0 && c.err == nil {
		m, err := c.stream.Receive()
		switch {
		case err != nil:
			c.err = c.fault(err)
		case m.End:
			c.err = io.EOF
		default:
			c.data = m.Data
		}
	}
	if len(c.data) == 0 {
		return 0, c.err
	}
	n := copy(b, c.data)
	c.data = c.data[n:]
	return n, nil
}

// Write implements engine.Connection.
func (c *connection) Write(b []byte) (int, error) {
	for n := 0; n < len(b); {
		part := b[n:min(len(b), n+protocol.Chunk)]
		if err := c.stream.Send(&guestpb.ConnectRequest{What: &guestpb.ConnectRequest_Data{Data: part}}); err != nil {
			return n, c.fault(err)
		}
		n += len(part)
	}
	return len(b), nil
}

// CloseWrite implements engine.Connection.
func (c *connection) CloseWrite() error { return c.stream.CloseRequest() }

// Close implements engine.Connection.
func (c *connection) Close() error {
	c.cancel(nil)
	return nil
}
