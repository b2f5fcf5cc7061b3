package intercept

import (
	"net"
	"sync"
	"time"

	"osaurus-sandbox/network/hello"
)

// watchedConn closes itself when nothing has passed for a while, and tells when it is closed.
type watchedConn struct {
	net.Conn
	idle   time.Duration
	timer  *time.Timer
	once   sync.Once
	closed chan struct{}
}

func watch(c net.Conn, idle time.Duration) *watchedConn {
	w := &watchedConn{Conn: c, idle: idle, closed: make(chan struct{})}
	w.timer = time.AfterFunc(idle, func() { w.Close() })
	return w
}

func (w *watchedConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.passed(n)
	return n, err
}

func (w *watchedConn) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.passed(n)
	return n, err
}

func (w *watchedConn) passed(n int) {
	if n > 0 {
		w.timer.Reset(w.idle)
	}
}

func (w *watchedConn) CloseWrite() error { return hello.CloseWrite(w.Conn) }

func (w *watchedConn) Close() error {
	w.once.Do(func() {
		w.timer.Stop()
		close(w.closed)
	})
	return w.Conn.Close()
}

// upstreamConn forgets the connection's context when it is closed.
type upstreamConn struct {
	net.Conn
	forget func() bool
}

func (u *upstreamConn) CloseWrite() error { return hello.CloseWrite(u.Conn) }

func (u *upstreamConn) Close() error {
	u.forget()
	return u.Conn.Close()
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
