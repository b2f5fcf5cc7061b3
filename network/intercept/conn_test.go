package intercept

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"osaurus-sandbox/internal/timetest"
)

// counted is a connection that is counted while it is open.
type counted struct {
	net.Conn
	end func()
}

func (c *counted) Close() error {
	c.end()
	return c.Conn.Close()
}

// Connections to a server end with the client's, also those that the transport would keep for later requests.
func TestUpstreamEndsWithItsClient(t *testing.T) {
	for _, major := range []int{1, 2} {
		l := newLab(t, true, nil)
		var open atomic.Int64
		dial := l.options.Dial
		l.options.Dial = func(ctx context.Context) (net.Conn, error) {
			conn, err := dial(ctx)
			if err != nil {
				return nil, err
			}
			open.Add(1)
			return &counted{conn, sync.OnceFunc(func() { open.Add(-1) })}, nil
		}
		for range 20 {
			c := l.client(major)
			l.do(c, "GET", "/", "", nil)
			c.CloseIdleConnections()
		}
		timetest.Eventually(t, "all connections are closed", func() bool { return open.Load() == 0 })
	}
}
