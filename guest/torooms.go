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
	// roomIdle is how long an idle connection to a file worker is kept. It must be below the two
	// minutes after which an idle worker exits.
	roomIdle = time.Minute
	// roomSpare is how many idle connections are kept for each room; file calls seldom overlap.
	roomSpare = 2
)

// toRooms sends file calls to the rooms' workers, one connection for each concurrent call. Calls
// beyond the worker's limit wait.
type toRooms struct{ *http.Transport }

func newToRooms(cs *conns, key protocol.Key) toRooms {
	return toRooms{&http.Transport{
		// The request's host is the user, so connections are pooled by user.
		DialContext: func(ctx context.Context, _, host string) (net.Conn, error) {
			user, _, err := net.SplitHostPort(host)
			if err != nil {
				return nil, err
			}
			return cs.enter(ctx, protocol.DataHeader{Key: key, User: user})
		},
		MaxConnsPerHost: protocol.MaxFileConns, MaxIdleConnsPerHost: roomSpare, IdleConnTimeout: roomIdle,
		MaxResponseHeaderBytes: protocol.MaxHeaders, DisableCompression: true,
		ReadBufferSize: protocol.Chunk, WriteBufferSize: protocol.Chunk,
	}}
}

// Do implements connect.HTTPClient. It does not follow redirects.
func (t toRooms) Do(r *http.Request) (*http.Response, error) {
	user, _ := r.Context().Value(roomOf{}).(config.LinuxUser)
	r.URL.Host = string(user)
	if r.URL.Path != guestpbconnect.FilesWriteProcedure {
		r.Header["Idempotency-Key"] = nil // lets the transport retry if the worker has exited
	}
	return t.RoundTrip(protocol.SendContent(r))
}

// inRoomOf returns a context that directs a file call to a user's room.
func inRoomOf(ctx context.Context, user config.LinuxUser) context.Context {
	return context.WithValue(ctx, roomOf{}, user)
}

type roomOf struct{}
