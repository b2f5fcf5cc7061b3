package guest

import (
	"context"
	"net"
	"net/http"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/guestpb/guestpbconnect"
	"osaurus-sandbox/guest/protocol"
)

const (
	// dataIdle is how long an idle connection is kept. It must be below the two minutes after which
	// an idle file worker exits.
	dataIdle = time.Minute
	// spareCommands and spareFiles are how many idle connections are kept: for commands, and for the
	// files of each room. More commands or file calls seldom run at once.
	spareCommands, spareFiles = 8, 2
)

// commandTransport sends commands without input. It uses HTTP/1.1, where output is
// copied less than on a stream of HTTP/2, and no other command shares the connection.
func (c *conns) commandTransport(key protocol.Key) *http.Transport {
	t := dataTransport(func(ctx context.Context, _ string) (net.Conn, error) {
		return c.enter(ctx, protocol.DataHeader{Key: key})
	})
	t.MaxIdleConnsPerHost = spareCommands
	return t
}

// fileTransport sends file calls to the rooms' workers, one connection for each concurrent call.
// The request's host is the user, so connections are pooled by user. Calls beyond the worker's
// limit wait.
func (c *conns) fileTransport(key protocol.Key) *http.Transport {
	t := dataTransport(func(ctx context.Context, user string) (net.Conn, error) {
		return c.enter(ctx, protocol.DataHeader{Key: key, User: user})
	})
	t.MaxConnsPerHost, t.MaxIdleConnsPerHost = protocol.MaxFileConns, spareFiles
	return t
}

func dataTransport(dial func(ctx context.Context, host string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return dial(ctx, host)
		},
		IdleConnTimeout: dataIdle, MaxResponseHeaderBytes: protocol.MaxHeaders, DisableCompression: true,
		ReadBufferSize: protocol.Chunk, WriteBufferSize: protocol.Chunk,
	}
}

// closeIdle closes idle connections, since those to a room that has ended are useless.
func (c *Client) closeIdle() {
	for _, t := range c.data {
		t.CloseIdleConnections()
	}
}

// toRooms directs file calls to the rooms of their users.
type toRooms struct{ *http.Transport }

// Do implements connect.HTTPClient. It does not follow redirects.
func (t toRooms) Do(r *http.Request) (*http.Response, error) {
	user, _ := r.Context().Value(roomOf{}).(config.LinuxUser)
	r.URL.Host = string(user)
	if r.URL.Path != guestpbconnect.FilesWriteProcedure {
		r.Header["Idempotency-Key"] = nil // lets the transport retry if the worker has exited
	}
	return t.RoundTrip(r)
}

// roomOf is the key of a file call's user in its context.
type roomOf struct{}
