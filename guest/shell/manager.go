//go:build linux

// Package shell runs the persistent shells of agents: sessions whose commands share one interactive shell on a terminal that people can attach to.
package shell

import (
	"cmp"
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/internal/fault"
)

const (
	// maxSessions bounds the sessions of one user. Each takes a process of a few megabytes and a
	// terminal.
	maxSessions = 16
	// idleAfter is when an unused session is closed if nothing runs in it.
	idleAfter = 2 * time.Hour
	// idleCheck is how often idle sessions are looked for.
	idleCheck = time.Minute
)

// Room is where a user's shells run.
type Room interface {
	Place(root bool) process.Place
	Environment(root bool) []string // of the login
	Home() string
	// Spool opens a folder in memory that only this room sees and only root can write to. It also
	// returns the folder's path in the room.
	Spool() (*os.Root, string, error)
}

// Find returns the room of a user. It fails with NotFound if there is none.
type Find func(ctx context.Context, user string) (Room, error)

// Manager runs the sessions of all users. It implements the service Shells except for Attach's stream.
type Manager struct {
	processes *process.Manager
	room      Find
	stop      chan struct{}
	watch     sync.Once // starts closeIdle, with the first session
	idle      sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	sessions map[key]*session
}

// key names a session.
type key struct {
	user string
	id   config.SessionID
}

// NewManager returns a Manager without sessions.
func NewManager(processes *process.Manager, room Find) *Manager {
	return &Manager{processes: processes, room: room, stop: make(chan struct{}), sessions: map[key]*session{}}
}

// Close ends all sessions.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	close(m.stop)
	m.idle.Wait()
	m.closeWhere("the guest closed it", func(*session) bool { return true })
}

// Forget ends all sessions of a user whose room is about to end.
func (m *Manager) Forget(user string) {
	m.closeWhere("its room was closed", func(s *session) bool { return s.key.user == user })
}

// CloseSession ends a session, or without an id all of a user's.
func (m *Manager) CloseSession(_ context.Context, r *guestpb.CloseSessionRequest) (*guestpb.CloseSessionResponse, error) {
	if r.Session != "" {
		if _, err := m.find(r.User, r.Session); err != nil {
			return nil, err
		}
	}
	n := m.closeWhere("it was closed", func(s *session) bool {
		return s.key.user == r.User && (r.Session == "" || r.Session == string(s.key.id))
	})
	return &guestpb.CloseSessionResponse{Closed: uint32(n)}, nil
}

func (m *Manager) closeWhere(cause string, which func(*session) bool) int {
	m.mu.Lock()
	var chosen []*session
	for key, s := range m.sessions {
		if which(s) {
			chosen = append(chosen, s)
			delete(m.sessions, key)
		}
	}
	m.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range chosen {
		all.Go(func() { s.close(cause) })
	}
	all.Wait()
	return len(chosen)
}

func (m *Manager) closeIdle() {
	tick := time.NewTicker(idleCheck)
	defer tick.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-tick.C:
		}
		m.closeWhere("nobody used it", func(s *session) bool { return time.Since(s.lastUsed()) >= idleAfter && s.spare() })
	}
}

// Run runs a command in a session's shell.
func (m *Manager) Run(ctx context.Context, r *guestpb.ShellRunRequest) (*guestpb.ShellRunResponse, error) {
	s, err := m.session(ctx, r.Shell)
	if err != nil {
		return nil, err
	}
	return s.run(ctx, r)
}

// Cancel ends the command that runs in a session, or a certain call.
func (m *Manager) Cancel(ctx context.Context, r *guestpb.ShellCancelRequest) (*guestpb.ShellCancelResponse, error) {
	s, err := m.find(r.User, r.Session)
	if err != nil {
		return nil, err
	}
	return &guestpb.ShellCancelResponse{}, s.cancelCall(ctx, config.CallID(r.Call))
}

// Sessions lists sessions by user and id.
func (m *Manager) Sessions(_ context.Context, r *guestpb.SessionsRequest) (*guestpb.SessionsResponse, error) {
	m.mu.Lock()
	var chosen []*session
	for _, s := range m.sessions {
		if r.User == "" || r.User == s.key.user {
			chosen = append(chosen, s)
		}
	}
	m.mu.Unlock()
	list := &guestpb.SessionsResponse{}
	for _, s := range chosen {
		list.Sessions = append(list.Sessions, s.state())
	}
	slices.SortFunc(list.Sessions, func(a, b *guestpb.Session) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Session, b.Session))
	})
	return list, nil
}

// Transcript returns the end of a session's transcript.
func (m *Manager) Transcript(_ context.Context, r *guestpb.ShellTranscriptRequest) (*guestpb.ShellTranscriptResponse, error) {
	s, err := m.find(r.User, r.Session)
	if err != nil {
		return nil, err
	}
	text, version := s.transcript()
	return &guestpb.ShellTranscriptResponse{Text: text, Version: version}, nil
}

// find returns an existing session.
func (m *Manager) find(user, id string) (*session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[key{user, config.SessionID(id)}]
	if s == nil {
		return nil, fault.Newf(fault.NotFound, "find session", id, "no such session").Advise("It may have ended; running a command in it starts it again.")
	}
	return s, nil
}

// session returns a session, creating it if needed. If its user has too many, the one that was
// idle longest is closed.
func (m *Manager) session(ctx context.Context, r *guestpb.Shell) (*session, error) {
	const op = "open session"
	if _, err := m.room(ctx, r.User); err != nil {
		return nil, err
	}
	name := key{r.User, config.SessionID(r.Session)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fault.Newf(fault.Unavailable, op, r.Session, "the guest is ending")
	}
	if s := m.sessions[name]; s != nil {
		return s, nil
	}
	var theirs []*session
	for key, s := range m.sessions {
		if key.user == r.User {
			theirs = append(theirs, s)
		}
	}
	if len(theirs) >= maxSessions {
		theirs = slices.DeleteFunc(theirs, func(s *session) bool { return !s.spare() })
		if len(theirs) == 0 {
			return nil, fault.Newf(fault.Rejected, op, r.Session, "%d sessions are open, and something runs in each", maxSessions).
				Advise("Close one that is not needed any more.")
		}
		oldest := slices.MinFunc(theirs, func(a, b *session) int { return a.lastUsed().Compare(b.lastUsed()) })
		delete(m.sessions, oldest.key)
		go oldest.close("another one took its place")
	}
	m.watch.Do(func() { m.idle.Go(m.closeIdle) })
	s := newSession(m, name, r.Transcript)
	m.sessions[name] = s
	return s, nil
}
