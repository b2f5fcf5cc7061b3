package intercept

import (
	"context"
	"net"
	"sync"

	"osaurus-sandbox/network/hello"
)

// watchedConn tells when it is closed.
type watchedConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

// watch closes a connection when the context ends.
func watch(ctx context.Context, conn net.Conn) *watchedConn {
	w := &watchedConn{Conn: conn, closed: make(chan struct{})}
	go func() {
		select {
		case <-ctx.Done():
			_ = w.Close()
		case <-w.closed:
		}
	}()
	return w
}

func (w *watchedConn) CloseWrite() error { return hello.CloseWrite(w.Conn) }

func (w *watchedConn) Close() error {
	w.once.Do(func() { close(w.closed) })
	return w.Conn.Close()
}

// listener accepts one connection, and then waits for its end.
type listener struct {
	conn   net.Conn
	given  bool
	closed <-chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	if !l.given {
		l.given = true
		return l.conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *listener) Addr() net.Addr { return l.conn.LocalAddr() }
func (l *listener) Close() error   { return nil }
