package bridge

import (
	"context"
	"net"

	"osaurus-sandbox/config"
)

// Peer is a connection that knows who is at the other end.
type Peer interface {
	net.Conn
	// UID returns the peer's Linux user in the guest. It does not block.
	UID() uint32
	// Plugin returns the plugin that the guest says the program belongs to, or "".
	Plugin() config.PluginID
}

type peerKey struct{}

func withPeer(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, conn)
}
