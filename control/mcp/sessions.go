package mcp

import (
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxSessions bounds the sessions of older protocols over HTTP: more than a person's apps
// have. Each has ten goroutines and a connection to the daemon, and many clients never end
// theirs.
const maxSessions = 64

// openSessions are the sessions of older protocols over HTTP, the one used last at the end.
type openSessions struct {
	mu  sync.Mutex
	all []openSession
}

type openSession struct {
	*mcp.ServerSession
	calls int // under way
}

// begin counts a call, in a session that may be new. If there are too many sessions, it
// returns the one without a call for the longest time, for the caller to close.
func (o *openSessions) begin(s *mcp.ServerSession) (idle *mcp.ServerSession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	calls, _ := o.remove(s)
	o.all = append(o.all, openSession{s, calls + 1})
	i := slices.IndexFunc(o.all, func(other openSession) bool { return other.calls == 0 })
	if len(o.all) <= maxSessions || i < 0 {
		return nil
	}
	idle = o.all[i].ServerSession
	o.remove(idle)
	return idle
}

// end ends a call of begin.
func (o *openSessions) end(s *mcp.ServerSession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if calls, ok := o.remove(s); ok {
		o.all = append(o.all, openSession{s, calls - 1})
	}
}

// leave removes a session that has ended.
func (o *openSessions) leave(s *mcp.ServerSession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.remove(s)
}

// remove removes a session and returns its calls.
func (o *openSessions) remove(s *mcp.ServerSession) (calls int, ok bool) {
	i := slices.IndexFunc(o.all, func(other openSession) bool { return other.ServerSession == s })
	if i < 0 {
		return 0, false
	}
	calls = o.all[i].calls
	o.all = slices.Delete(o.all, i, i+1)
	return calls, true
}
