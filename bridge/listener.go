package bridge

import (
	"context"
	"net"
	"net/http"
	"sync"

	"osaurus-sandbox/config"
)

// maxConnections bounds the open connections of one user of the guest; each costs the host some 20 KiB.
const maxConnections = 128

// Peer is a connection that knows who is at the other end.
type Peer interface {
	net.Conn
	// UID returns the peer's Linux user in the guest. It does not block.
	UID() uint32
	// Plugin returns the plugin that the guest says the program belongs to, or "".
	Plugin() config.PluginID
}

// connections counts the open connections of each user.
type connections struct {
	mu    sync.Mutex
	byUID map[uint32]int
}

// track counts a connection, and closes it if its user has too many or nobody knows whose it is. It
// implements http.Server.ConnState.
func (c *connections) track(conn net.Conn, state http.ConnState) {
	peer, ok := conn.(Peer)
	if !ok {
		_ = conn.Close()
		return
	}
	uid := peer.UID()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		if c.byUID[uid]++; c.byUID[uid] > maxConnections {
			_ = conn.Close()
		}
	case http.StateClosed, http.StateHijacked:
		if c.byUID[uid]--; c.byUID[uid] == 0 {
			delete(c.byUID, uid)
		}
	}
}

type peerKey struct{}

func withPeer(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, conn)
}
