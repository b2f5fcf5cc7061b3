package mcp

import (
	"cmp"
	"net/http"
	"sync"

	"osaurus-sandbox/internal/fault"
)

// maxSessions is how many sessions of older protocols there are at a time over HTTP: more than a
// person's apps have, and few enough that ten goroutines and a connection to the daemon for each
// cost little.
const maxSessions = 64

// crowd are the sessions of older protocols, of which many clients end none. A crowd that is nil
// has no bound.
type crowd struct {
	mu      sync.Mutex
	members map[string]*member // by the session's id
	entered uint64             // requests so far, which say what was earlier
}

type member struct {
	calls, streams int    // what is under way: what is asked, and requests that only listen
	last           uint64 // the last that asked
	end            func()
}

func newCrowd() *crowd { return &crowd{members: map[string]*member{}} }

// join takes a session in. If there are too many, the one that asked nothing for longest is ended
// for it, and rather one to which nobody listens; never one in which a call is under way.
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

// idle is the session that is missed least, or "". The lock is held.
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

// leave forgets a session that has ended.
func (c *crowd) leave(id string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.members, id)
}

// enter takes note of a request that begins, until what it returns is called.
func (c *crowd) enter(r *http.Request) (done func()) {
	return c.hold(r.Header.Get(sessionHeader), r.Method != http.MethodGet)
}

// hold takes note of what goes on in a session, until what it returns is called: something that is
// asked, or somebody who only listens. An answer is worked on even if the request for it has ended.
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
