package protocol

import (
	"errors"
	"net"
	"sync"
	"time"

	"osaurus-sandbox/config"
)

const (
	// headerTimeout bounds how long a header may take. The relay sends it first, so only a
	// stalled guest is slow.
	headerTimeout = 5 * time.Second
	// maxPending bounds the connections without a header; more wait to be accepted.
	maxPending = 64
)

// BridgeConn is a connection whose header had the key.
type BridgeConn struct {
	net.Conn
	caller Caller
}

// UID is the Linux user of the room that the connection is from.
func (c *BridgeConn) UID() uint32 { return c.caller.UID }

// Plugin is the plugin that the connection is from; empty for none.
func (c *BridgeConn) Plugin() config.PluginID { return c.caller.Plugin }

// BridgeListener accepts connections that begin with a Caller header with the right key, as
// *BridgeConn. It closes all others.
type BridgeListener struct {
	inner   net.Listener
	key     BridgeKey
	timeout time.Duration
	ready   chan *BridgeConn
	slots   chan struct{} // one for each connection whose header is being read
	done    chan struct{}
	err     error // of the inner listener; set before done is closed
	stopped sync.Once
	work    sync.WaitGroup

	mu      sync.Mutex
	pending map[net.Conn]struct{}
}

var _ net.Listener = (*BridgeListener)(nil)

// ListenBridge accepts from inner, and closes inner when it is closed.
func ListenBridge(inner net.Listener, key BridgeKey) *BridgeListener {
	return listenBridge(inner, key, headerTimeout)
}

func listenBridge(inner net.Listener, key BridgeKey, timeout time.Duration) *BridgeListener {
	l := &BridgeListener{
		inner: inner, key: key, timeout: timeout, ready: make(chan *BridgeConn), slots: make(chan struct{}, maxPending),
		done: make(chan struct{}), pending: map[net.Conn]struct{}{},
	}
	l.work.Go(l.accept)
	return l
}

// accept reads each connection's header in a goroutine, so that a silent one delays no other.
func (l *BridgeListener) accept() {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.done:
			return
		}
		c, err := l.inner.Accept()
		if err != nil {
			l.stop(err)
			return
		}
		l.work.Go(func() {
			defer func() { <-l.slots }()
			l.handshake(c)
		})
	}
}

// handshake hands over a connection if its header is right.
func (l *BridgeListener) handshake(c net.Conn) {
	if !l.track(c) {
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(l.timeout))
	caller, err := ReadCaller(c, l.key)
	l.untrack(c)
	if err == nil {
		err = c.SetReadDeadline(time.Time{})
	}
	if err != nil {
		_ = c.Close()
		return
	}
	select {
	case l.ready <- &BridgeConn{Conn: c, caller: caller}:
	case <-l.done:
		_ = c.Close()
	}
}

// track lets Close end a connection that is not handed over yet.
func (l *BridgeListener) track(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == nil {
		return false
	}
	l.pending[c] = struct{}{}
	return true
}

func (l *BridgeListener) untrack(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pending, c)
}

func (l *BridgeListener) stop(why error) {
	l.stopped.Do(func() {
		l.err = why
		close(l.done)
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.pending {
		_ = c.Close()
	}
	l.pending = nil
}

// Accept implements net.Listener.
func (l *BridgeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.done:
		return nil, l.err
	}
}

// Close implements net.Listener. It waits until nothing remains but the accepted connections.
func (l *BridgeListener) Close() error {
	l.stop(net.ErrClosed)
	err := l.inner.Close()
	l.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // the machine closed it first
	}
	return err
}

// Addr implements net.Listener.
func (l *BridgeListener) Addr() net.Addr { return l.inner.Addr() }
