package control

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/machine"
)

// caller is who asks.
type caller struct {
	uid    int
	client string // what it says it is
}

type callerKey struct{}

// withPeer notes who is at the other end of a connection.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	uid := os.Getuid() // who has the token of the TCP listener can read this user's files
	if k, ok := conn.(known); ok {
		uid = k.uid
	}
	return context.WithValue(ctx, callerKey{}, caller{uid: uid})
}

// naming notes what a client says it is.
func naming(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callerOf(r.Context())
		for _, name := range []string{r.Header.Get(clientHeader), r.UserAgent(), "unnamed"} {
			if c.client = printable.Clip(name); c.client != "" {
				break
			}
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// cause is the caller in the words of an event.
func (c caller) cause() machine.Cause {
	return machine.Cause(fmt.Sprintf("%s, uid %d", c.client, c.uid))
}
