package protocol

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"osaurus-sandbox/config"
)

const (
	// HeaderTimeout bounds how long a connection's header may take. It is sent at once.
	HeaderTimeout = 10 * time.Second
	// maxPending bounds the connections without a header; more wait to be accepted.
	maxPending = 64
	// acceptPause is the pause after a failed accept. Memory or descriptors may be short for a
	// moment, and giving up would end all that the listener serves.
	acceptPause = 100 * time.Millisecond
)

// ReadHeader reads a connection's header and returns what Accept makes of the connection: another one,
// or nil if it is dealt with.
type ReadHeader func(io.Reader) (func(net.Conn) net.Conn, error)

// Listener accepts connections that begin with a header and closes those with none, or a wrong one.
type Listener struct {
	net.Listener
	header  ReadHeader
	timeout time.Duration
	ready   chan net.Conn
	slots   chan struct{} // one for each connection whose header is being read
	ended   context.Context
	end     context.CancelFunc
	work    sync.WaitGroup
}

// Listen accepts from inner, and closes inner when it is closed.
func Listen(inner net.Listener, timeout time.Duration, header ReadHeader) *Listener {
	l := &Listener{Listener: inner, header: header, timeout: timeout, ready: make(chan net.Conn), slots: make(chan struct{}, maxPending)}
	l.ended, l.end = context.WithCancel(context.Background())
	l.work.Go(l.accept)
	return l
}

// accept reads each connection's header in a goroutine, so that a silent one delays no other.
func (l *Listener) accept() {
	defer l.end()
	for l.ended.Err() == nil {
		c, err := l.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		l.slots <- struct{}{} // at most for the timeout
		l.work.Go(func() { l.begin(c) })
	}
}

// begin hands a connection over if its header is right.
func (l *Listener) begin(c net.Conn) {
	stop := context.AfterFunc(l.ended, func() { _ = c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(l.timeout))
	take, err := l.header(c)
	<-l.slots
	if err != nil || !stop() || c.SetReadDeadline(time.Time{}) != nil {
		_ = c.Close()
		return
	}
	if c = take(c); c == nil {
		return
	}
	select {
	case l.ready <- c:
	case <-l.ended.Done():
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.ended.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It waits until nothing remains but the accepted connections.
func (l *Listener) Close() error {
	l.end()
	err := l.Listener.Close()
	l.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // the machine closed it first
	}
	return err
}

// BridgeConn is a connection whose header had the key.
type BridgeConn struct {
	net.Conn
	caller Caller
}

// UID is the Linux user of the room that the connection is from.
func (c *BridgeConn) UID() uint32 { return c.caller.UID }

// Plugin is the plugin that the connection is from; empty for none.
func (c *BridgeConn) Plugin() config.PluginID { return c.caller.Plugin }

// ListenBridge accepts connections that begin with a Caller header with the right key, as *BridgeConn.
func ListenBridge(inner net.Listener, key BridgeKey) *Listener {
	return listenBridge(inner, key, HeaderTimeout)
}

func listenBridge(inner net.Listener, key BridgeKey, timeout time.Duration) *Listener {
	return Listen(inner, timeout, func(r io.Reader) (func(net.Conn) net.Conn, error) {
		caller, err := ReadCaller(r, key)
		return func(c net.Conn) net.Conn { return &BridgeConn{c, caller} }, err
	})
}
