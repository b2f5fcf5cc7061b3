package mcp

import (
	"context"
	"errors"
	"io"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Serve serves one client over a pair of streams until the client closes its end or the
// context ends. Open calls then end; after the client's end they have endGrace.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	l := newLife(ctx)
	defer l.end()
	s, both := newSession(l, o), newLines(l, in, out)
	client, err := s.server.Connect(context.WithoutCancel(ctx), &mcp.IOTransport{Reader: both, Writer: both}, nil)
	if err != nil {
		return err
	}
	defer context.AfterFunc(l, func() { _ = client.Close() })()
	err = client.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case both.ended.Load(), errors.Is(err, io.ErrClosedPipe), errors.Is(err, syscall.EPIPE):
		return nil // the client has left; which of its ends was closed first is chance
	}
	return err
}
