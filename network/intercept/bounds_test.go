package intercept

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/network/policy"
)

// A client that sends many requests at once over HTTP/2 opens few connections to a server without it.
func TestUpstreamConnectionsAreBounded(t *testing.T) {
	const requests = 40
	admitted, release := make(chan bool, requests), make(chan bool)
	l := newLab(t, true, func(http.ResponseWriter, *http.Request) { <-release })
	l.api.TLS.NextProtos = []string{"http/1.1"}
	l.options.Authorize = func(context.Context, string, string) policy.Decision {
		admitted <- true
		return policy.Decision{Action: policy.Allow}
	}
	var open, most atomic.Int64
	dial := l.options.Dial
	l.options.Dial = func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		most.Store(max(most.Load(), open.Add(1)))
		return &closeCounted{Conn: c, closed: sync.OnceFunc(func() { open.Add(-1) })}, err
	}
	client := l.client(2)
	client.Timeout = 0 // requests wait for those before them
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			res, err := client.Get("https://" + host + "/")
			if err != nil {
				t.Error(err)
				return
			}
			res.Body.Close()
		})
	}
	for range requests {
		<-admitted
	}
	// As many requests as there are connections are open until all others have taken their turn, so that no connection
	// is closed early: the transport opens another one just before it closes one.
	for answered := range requests {
		for len(l.arrived()) < min(answered+maxUpstream, requests) {
			time.Sleep(time.Millisecond)
		}
		release <- true
	}
	all.Wait()
	if n := most.Load(); n > maxUpstream {
		t.Errorf("%d connections were open at once", n)
	}
}

type closeCounted struct {
	net.Conn
	closed func()
}

func (c *closeCounted) Close() error {
	c.closed()
	return c.Conn.Close()
}
