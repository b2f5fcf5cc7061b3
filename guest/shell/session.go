//go:build linux

package shell

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// session is a sequence of shells with one transcript.
type session struct {
	manager  *Manager
	key      key
	turn     chan struct{}  // holds one token: the right to use the shell
	closing  chan struct{}  // closed by close
	starting sync.WaitGroup // shells that are not ready yet

	mu      sync.Mutex
	proc    *proc  // nil: no shell
	closed  string // why the session was closed
	lost    string // why the last shell ended, until reported
	status  int    // $? of the last call
	screen  screen
	viewers map[*Viewer]struct{}
	coming  int // people who are attaching
	size    process.Size
	calls   map[*call]struct{} // running and waiting
	call    *call              // under way
	left    []*call            // ended, with open streams
	typed   bool               // a person has typed since the last call
	waiting int                // calls
	made    time.Time
	used    time.Time
}

// usual is a terminal's size until a person attaches.
var usual = process.Size{Rows: 24, Cols: 80}

func newSession(k *Manager, name key, transcript string) *session {
	now := time.Now()
	s := &session{
		manager: k, key: name, turn: make(chan struct{}, 1), closing: make(chan struct{}), calls: map[*call]struct{}{}, viewers: map[*Viewer]struct{}{},
		size: usual, made: now, used: now,
	}
	s.turn <- struct{}{}
	if transcript != "" {
		s.screen.tell([]byte(strings.TrimRight(protocol.CleanTranscript(transcript), "\n") + "\n"))
	}
	return s
}

// use records a use of the session.
func (s *session) use() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = time.Now()
}

func (s *session) lastUsed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// spare reports whether only the session's variables would be lost by closing it.
func (s *session) spare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idle() && (s.proc == nil || s.proc.alone())
}

// idle reports whether the session has no calls, no attached people and none attaching. The caller
// holds the lock.
func (s *session) idle() bool {
	return s.call == nil && s.waiting == 0 && len(s.calls) == 0 && len(s.viewers) == 0 && s.coming == 0
}

// attended reports whether a person is attached.
func (s *session) attended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.viewers) > 0
}

// transcript returns the transcript without an outdated prompt.
func (s *session) transcript() (text string, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text = s.screen.text()
	if s.proc != nil && s.proc.stale && s.call == nil && !s.typed {
		text = text[:strings.LastIndexByte(text, '\n')+1]
	}
	return text, s.screen.version
}

// close ends the session.
func (s *session) close(cause string) {
	s.mu.Lock()
	s.closed = cause
	close(s.closing)
	s.mu.Unlock()
	s.starting.Wait()
	s.mu.Lock()
	l := s.proc
	s.mu.Unlock()
	if l != nil {
		l.end(cause)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for v := range s.viewers {
		v.finish(&guestpb.ShellEnded{Cause: cause})
	}
	for _, c := range s.left {
		c.close()
	}
	s.left = nil
}

// shell returns the session's shell, starting one if needed. The caller has the turn.
func (s *session) shell(ctx context.Context, spec *guestpb.Shell) (*proc, error) {
	s.mu.Lock()
	l, err := s.proc, s.over()
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if l != nil {
		return l, nil
	}
	room, err := s.manager.room(ctx, s.key.user)
	if err != nil {
		return nil, err
	}
	return s.start(ctx, room, spec)
}

// over returns an error if the session was closed. The caller holds the lock.
func (s *session) over() error {
	if s.closed == "" {
		return nil
	}
	return fault.Newf(fault.Unavailable, "open session", string(s.key.id), "it has just ended: %s", s.closed).Advise("Ask again.")
}

// start starts bash, or /bin/sh if there is no bash. If the user's profile keeps the shell from
// starting, it is skipped, so that agents cannot lock themselves out.
func (s *session) start(ctx context.Context, room Room, spec *guestpb.Shell) (*proc, error) {
	k, profile := bash, true
	for {
		l, err := s.launch(ctx, room, spec, k, profile)
		if err == nil {
			return l, nil
		}
		// If the session was closed, neither the profile nor bash is to blame.
		s.mu.Lock()
		over := s.over()
		s.mu.Unlock()
		switch {
		case over != nil:
			return nil, over
		case errors.Is(err, errNotReady) && profile && ctx.Err() == nil:
			profile = false
			s.remark("the user's profile kept the shell from starting, and was left out")
		case fault.KindOf(err) == fault.NotFound && k.editing:
			k = posix
		default:
			return nil, err
		}
	}
}

// remark prints a line of our own.
func (s *session) remark(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLine()
	s.tell([]byte("[" + text + "]\n"))
}

// publish passes on the terminal's output. The caller holds the lock.
func (s *session) publish(b []byte) {
	s.screen.show(b)
	for v := range s.viewers {
		v.put(b)
	}
}

// tell passes on a command's output, which does not come from a terminal. The caller holds the
// lock.
func (s *session) tell(b []byte) {
	s.screen.tell(b)
	if len(s.viewers) > 0 {
		b = bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))
		for v := range s.viewers {
			v.put(b)
		}
	}
}

// endLine starts a new line unless the current one is empty. The caller holds the lock.
func (s *session) endLine() {
	if !s.screen.fresh() {
		s.tell([]byte("\n"))
	}
}

// announce replaces the prompt with the command that begins. The caller holds the lock.
func (s *session) announce(command []byte) {
	const most = 1000 // characters: its output is more important
	text := strings.TrimRight(protocol.CleanTranscript(string(command)), "\n")
	s.publish([]byte("\r\x1b[K"))
	s.screen.tool = parser{} // an unfinished sequence of the previous command must not hide this one
	s.tell([]byte("$ " + printable.Chars(text, most) + "\n"))
}

// state describes the session.
func (s *session) state() *guestpb.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &guestpb.Session{
		User: s.key.user, Session: string(s.key.id), State: string(engine.SessionEnded), Attached: uint32(len(s.viewers)),
		Waiting: uint32(s.waiting), MadeUnixNano: s.made.UnixNano(), UsedUnixNano: s.used.UnixNano(),
	}
	if s.proc == nil {
		return out
	}
	out.Pid, out.Dir = int32(s.proc.child.PID()), []byte(s.proc.cwd())
	switch {
	case s.call != nil:
		out.State, out.Command = string(engine.SessionCommand), printable.Clip(string(s.call.text))
	case s.proc.atPrompt():
		out.State = string(engine.SessionIdle)
	default:
		out.State = string(engine.SessionPerson)
	}
	return out
}
