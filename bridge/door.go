package bridge

import (
	"context"
	"net"
	"sync"

	"osaurus-sandbox/config"
)

// maxConnections is how many connections one user of the guest may have open.
// Each costs the host some 20 KiB; more than these are closed at once.
const maxConnections = 128

// Peer is a connection that knows who is at its other end.
type Peer interface {
	net.Conn
	// UID is the user of the guest who is there. It does not wait.
	UID() uint32
	// Plugin is the plugin whose program is there, by the guest's word; empty is none.
	Plugin() config.PluginID
}

// door counts who is inside.
type door struct {
	mu     sync.Mutex
	inside map[uint32]int
}

func newDoor() *door { return &door{inside: map[uint32]int{}} }

func (d *door) enter(uid uint32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inside[uid] >= maxConnections {
		return false
	}
	d.inside[uid]++
	return true
}

func (d *door) leave(uid uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inside[uid]--; d.inside[uid] == 0 {
		delete(d.inside, uid)
	}
}

// at is a listener whose connections come through the door.
func (d *door) at(l net.Listener) net.Listener { return counted{l, d} }

type counted struct {
	net.Listener
	door *door
}

func (c counted) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if peer, ok := conn.(Peer); ok && c.door.enter(peer.UID()) {
			return &visitor{Peer: peer, leave: sync.OnceFunc(func() { c.door.leave(peer.UID()) })}, nil
		}
		_ = conn.Close() // whoever it is, there is nobody to tell
	}
}

// visitor is a connection that is counted until it is closed.
type visitor struct {
	Peer
	leave func()
}

func (v *visitor) Close() error {
	defer v.leave()
	return v.Peer.Close()
}

type peerKey struct{}

// withPeer notes who is at the other end of a connection that came through
// the door.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, conn.(Peer))
}
