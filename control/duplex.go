package control

import (
	"context"
	"errors"
	"io"
	"sync"

	"connectrpc.com/connect"

	"osaurus-sandbox/internal/fault"
)

// duplex is a call with a stream in both directions.
type duplex[Req, Resp any] struct {
	stream  *connect.BidiStreamForClientSimple[Req, Resp]
	sending sync.Mutex // a stream has one sender at a time
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{}
}

// begin makes a call and returns the first answer. The end of the context ends the call.
func begin[Req, Resp any](ctx context.Context, open func(context.Context) (*connect.BidiStreamForClientSimple[Req, Resp], error), start *Req) (*duplex[Req, Resp], *Resp, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := open(ctx)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	var first *Resp
	if err = stream.Send(start); err == nil || errors.Is(err, io.EOF) { // with EOF, Receive has the reason
		first, err = stream.Receive()
	}
	if err != nil {
		cancel()
		return nil, nil, unexpected(err)
	}
	return &duplex[Req, Resp]{stream: stream, ctx: ctx, cancel: cancel, done: make(chan struct{})}, first, nil
}

// unexpected explains a stream that ended too early.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return fault.Newf(fault.Unavailable, "run command", "", "the daemon did not say how it ended").Advise("See `osaurus-sandbox logs`.")
	}
	return err
}

// keepOpen makes the end of the context end the request too: the transport looks at the
// context only when the request has ended.
func (d *duplex[Req, Resp]) keepOpen() {
	context.AfterFunc(d.ctx, func() { _ = d.stream.CloseRequest() })
}

func (d *duplex[Req, Resp]) send(m *Req) error {
	d.sending.Lock()
	defer d.sending.Unlock()
	return d.stream.Send(m)
}

// receive returns the next answer.
func (d *duplex[Req, Resp]) receive() (*Resp, error) {
	m, err := d.stream.Receive()
	if err != nil {
		return nil, unexpected(err)
	}
	return m, nil
}

// Done is closed when Wait would not block.
func (d *duplex[Req, Resp]) Done() <-chan struct{} { return d.done }
