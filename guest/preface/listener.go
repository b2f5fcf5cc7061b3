package preface

import (
	"errors"
	"net"
	"sync"
	"time"

	"osaurus-sandbox/config"
)

const (
	// patience is how long a preface may be under way. The relay sends it first of
	// all, so only a guest that stands still is slow.
	patience = 5 * time.Second
	// maxUnread bounds the connections whose preface has not come. Beyond it the
	// next wait: who makes them is no relay, and holds up its own guest.
	maxUnread = 64
)

// Conn is a connection that a relay has vouched for.
type Conn struct {
	net.Conn
	of Preface
}

// UID is the Linux user of the guest that it is of.
func (c *Conn) UID() uint32 { return c.of.UID }

// Plugin is the plugin that it is of; empty is none.
func (c *Conn) Plugin() config.PluginID { return c.of.Plugin }

// Listener accepts the connections that begin with the preface of one boot, as
// *Conn. All others are closed without a word.
type Listener struct {
	inner    net.Listener
	key      Key
	patience time.Duration
	ready    chan *Conn
	slots    chan struct{} // one for each connection whose preface is read
	done     chan struct{}
	err      error // of the inner listener; set before done is closed
	end      sync.Once
	work     sync.WaitGroup

	mu     sync.Mutex
	unread map[net.Conn]struct{}
}

var _ net.Listener = (*Listener)(nil)

// Listen accepts from a listener, which is closed with it.
func Listen(inner net.Listener, key Key) *Listener { return listen(inner, key, patience) }

func listen(inner net.Listener, key Key, patience time.Duration) *Listener {
	l := &Listener{
		inner: inner, key: key, patience: patience, ready: make(chan *Conn), slots: make(chan struct{}, maxUnread), done: make(chan struct{}), unread: map[net.Conn]struct{}{},
	}
	l.work.Go(l.accept)
	return l
}

// accept takes connections, and leaves each to a goroutine of its own: one that says
// nothing holds up no other.
func (l *Listener) accept() {
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
			l.greet(c)
		})
	}
}

// greet hands a connection over whose preface is right.
func (l *Listener) greet(c net.Conn) {
	if !l.track(c) {
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(l.patience))
	p, err := Read(c, l.key)
	l.untrack(c)
	if err == nil {
		err = c.SetReadDeadline(time.Time{})
	}
	if err != nil {
		_ = c.Close()
		return
	}
	select {
	case l.ready <- &Conn{Conn: c, of: p}:
	case <-l.done:
		_ = c.Close()
	}
}

// track has Close end a connection that is not handed over yet.
func (l *Listener) track(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unread == nil {
		return false
	}
	l.unread[c] = struct{}{}
	return true
}

func (l *Listener) untrack(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.unread, c)
}

// stop ends the listener for a reason.
func (l *Listener) stop(why error) {
	l.end.Do(func() {
		l.err = why
		close(l.done)
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.unread {
		_ = c.Close()
	}
	l.unread = nil
}

func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.done:
		return nil, l.err
	}
}

// Close implements net.Listener. It returns when nothing of it is left but the
// connections that were accepted.
func (l *Listener) Close() error {
	l.stop(net.ErrClosed)
	err := l.inner.Close()
	l.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // the machine was faster
	}
	return err
}

func (l *Listener) Addr() net.Addr { return l.inner.Addr() }
