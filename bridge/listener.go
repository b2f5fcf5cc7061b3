package bridge

import (
	"context"
	"net"
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

func (c *connections) add(uid uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byUID[uid] >= maxConnections {
		return false
	}
	c.byUID[uid]++
	return true
}

func (c *connections) remove(uid uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byUID[uid]--; c.byUID[uid] == 0 {
		delete(c.byUID, uid)
	}
}

// limitedListener closes connections beyond the limit, and those that are not a Peer.
type limitedListener struct {
	net.Listener
	open *connections
}

func (l limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if peer, ok := conn.(Peer); ok && l.open.add(peer.UID()) {
			return &countedConn{Peer: peer, remove: sync.OnceFunc(func() { l.open.remove(peer.UID()) })}, nil
		}
		_ = conn.Close()
	}
}

// countedConn counts as open until it is closed.
type countedConn struct {
	Peer
	remove func()
}

func (c *countedConn) Close() error {
	defer c.remove()
	return c.Peer.Close()
}

type peerKey struct{}

func withPeer(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, conn.(Peer))
}
