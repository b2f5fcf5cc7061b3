package mcp

import (
	"cmp"
	"net/http"
	"sync"

	"osaurus-sandbox/internal/fault"
)

// maxSessions bounds the sessions of older protocols over HTTP: more than a person's apps
// have. Each has ten goroutines and a connection to the daemon.
const maxSessions = 64

// crowd bounds the sessions of older protocols, since many clients never end theirs. A nil
// crowd has no bound.
type crowd struct {
	mu      sync.Mutex
	members map[string]*member // by the session's id
	entered uint64             // counts requests, for their order
}

type member struct {
	calls, streams int    // open requests: calls, and GETs that only listen
	last           uint64 // call
	end            func()
}

func newCrowd() *crowd { return &crowd{members: map[string]*member{}} }

// join adds a session. If there are too many, it ends the one without a call for the
// longest time, preferably one without a listener, and never one with an open call.
func (c *crowd) join(id string, end func()) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.members) >= maxSessions {
		idle := c.idle()
		if idle == "" {
			return fault.Newf(fault.Rejected, "open session", "", "%d sessions are open, and in each a call is under way", maxSessions).
				Advise("End a session (DELETE with its Mcp-Session-Id), or try again later.")
		}
		c.members[idle].end()
		delete(c.members, idle)
	}
	c.entered++
	c.members[id] = &member{last: c.entered, end: end}
	return nil
}

// idle returns the session to end, or "". The caller holds mu.
func (c *crowd) idle() (least string) {
	for id, m := range c.members {
		if m.calls == 0 && (least == "" || m.before(c.members[least])) {
			least = id
		}
	}
	return least
}

func (m *member) before(o *member) bool {
	return cmp.Or(cmp.Compare(min(m.streams, 1), min(o.streams, 1)), cmp.Compare(m.last, o.last)) < 0
}

// leave removes a session that has ended.
func (c *crowd) leave(id string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.members, id)
}

// enter counts an HTTP request until done is called.
func (c *crowd) enter(r *http.Request) (done func()) {
	return c.hold(r.Header.Get(sessionHeader), r.Method != http.MethodGet)
}

// hold counts a call or a listener of a session until done is called. A call may go on
// after its HTTP request has ended.
func (c *crowd) hold(id string, asks bool) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[id]
	if m == nil {
		return func() {}
	}
	under := &m.streams
	if asks {
		c.entered++
		under, m.last = &m.calls, c.entered
	}
	*under++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		*under--
	}
}
