package mcp

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lastCalls is how long calls have that are under way when the client has closed
// its end: it may have said all at once, and wait for what comes of it, or be gone.
const lastCalls = 5 * time.Second

// Serve speaks to one client over a pair of streams until it closes its end or the
// context ends. Nothing but the protocol is written to out.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	life, end := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer end()
	s := newSession(life, &work, newShelf(), o)
	closed := &closing{Reader: in, then: func() { time.AfterFunc(lastCalls, end) }}
	client, err := s.server.Connect(context.WithoutCancel(ctx), &mcp.IOTransport{Reader: io.NopCloser(closed), Writer: unclosed{out}}, nil)
	if err != nil {
		return err
	}
	defer context.AfterFunc(life, func() { _ = client.Close() })()
	err = client.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// closing is a reader that says when it is at its end.
type closing struct {
	io.Reader
	then func()
	once sync.Once
}

func (c *closing) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != nil {
		c.once.Do(c.then)
	}
	return n, err
}

// unclosed is a writer that is others' to close.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
