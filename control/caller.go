package control

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/machine"
)

// caller is the other end of a call.
type caller struct {
	uid    int
	client string // its own name
}

type callerKey struct{}

// withPeer puts the user at the other end of a connection into its context.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	uid := os.Getuid() // a client with the token of the TCP listener can read this user's files
	if k, ok := conn.(known); ok {
		uid = k.uid
	}
	return context.WithValue(ctx, callerKey{}, caller{uid: uid})
}

// naming puts the client's name into the context of its requests.
func naming(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callerOf(r.Context())
		c.client = cmp.Or(printable.Clip(r.Header.Get(clientHeader)), printable.Clip(r.UserAgent()), "unnamed")
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// cause returns the caller as the cause of an event.
func (c caller) cause() machine.Cause {
	return machine.Cause(fmt.Sprintf("%s, uid %d", c.client, c.uid))
}
