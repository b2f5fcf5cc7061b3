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
	// roomIdle is how long a connection to a worker is kept for the next call. Two minutes
	// after the last one the worker ends.
	roomIdle = time.Minute
	// roomSpare is how many are kept of each room: files are mostly touched one after the
	// other.
	roomSpare = 2
)

// toRooms is the way to the workers for files: a connection for each call that is under way,
// which the next one uses. Calls that are more than a worker takes wait.
type toRooms struct{ *http.Transport }

func newToRooms(cs *conns, key protocol.Key) toRooms {
	return toRooms{&http.Transport{
		// The host of a request is the user: each has connections of their own.
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

// Do implements connect.HTTPClient: nothing follows where an answer points to.
func (t toRooms) Do(r *http.Request) (*http.Response, error) {
	user, _ := r.Context().Value(roomOf{}).(config.LinuxUser)
	r.URL.Host = string(user)
	if r.URL.Path != guestpbconnect.FilesWriteProcedure {
		r.Header["Idempotency-Key"] = nil // a worker may have ended with its room: the next one can be asked the same
	}
	return t.RoundTrip(protocol.SendContent(r))
}

// inRoomOf has a request be answered in the room of a user.
func inRoomOf(ctx context.Context, user config.LinuxUser) context.Context {
	return context.WithValue(ctx, roomOf{}, user)
}

type roomOf struct{}
