package mcp

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Serve speaks to one client over a pair of streams until it closes its end or the
// context ends; calls that are under way end then. Nothing but the protocol is
// written to out.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	l := newLife(ctx)
	defer l.end()
	s, read := newSession(l, newShelf(), o), &toEnd{Reader: in}
	s.server.AddReceivingMiddleware(sayCancelled)
	client, err := s.server.Connect(context.WithoutCancel(ctx), &mcp.IOTransport{Reader: io.NopCloser(read), Writer: quiet{unclosed{out}}}, nil)
	if err != nil {
		return err
	}
	defer context.AfterFunc(l, func() { _ = client.Close() })()
	err = client.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case read.ended.Load(), errors.Is(err, io.ErrClosedPipe), errors.Is(err, syscall.EPIPE):
		return nil // the client has left; which of its ends was closed first is chance
	}
	return err
}

// toEnd is a reader that remembers having been read to its end.
type toEnd struct {
	io.Reader
	ended atomic.Bool
}

func (r *toEnd) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		r.ended.Store(true)
	}
	return n, err
}

// unclosed is a writer that is others' to close.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
