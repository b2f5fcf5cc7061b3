//go:build linux

package shell

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/notify"
)

const (
	// viewerBacklog is the unread output at which a program has to wait for an attached person,
	// but for at most stuckAfter: a closed notebook must not block others.
	viewerBacklog = 256 << 10
	stuckAfter    = time.Second
	throttleCheck = 2 * time.Millisecond
	// viewerMost is the unread output at which the oldest is dropped.
	viewerMost = 1 << 20
)

// otherScreen switches a terminal to its alternate screen and clears it.
const otherScreen = "\x1b[?1049h\x1b[H\x1b[2J"

// skipped replaces dropped output.
var skipped = []byte("\r\n[… output left out …]\r\n")

// Viewer is a person attached to a session's shell.
type Viewer struct {
	session *session

	mu     sync.Mutex
	buf    []byte
	ended  *guestpb.ShellEnded
	change chan struct{} // holds one token when there is new output
	stuck  bool          // too slow; programs no longer wait for it
}

// Attach attaches a person to a session's shell, starting it if needed.
func (m *Manager) Attach(ctx context.Context, r *guestpb.ShellOpen) (*Viewer, error) {
	s, err := m.session(ctx, r.Shell)
	if err != nil {
		return nil, err
	}
	defer s.came()
	s.mu.Lock()
	s.coming++
	s.size = sizeOf(r.Size)
	l := s.proc
	settled := l != nil && !l.stale
	s.mu.Unlock()
	if !settled {
		// Starting a shell or printing a new prompt needs the turn.
		wait, cancel := context.WithTimeoutCause(ctx, engine.ShellTimeout, s.busy("something"))
		defer cancel()
		if err := s.takeTurn(wait); err != nil {
			return nil, err
		}
		if l, err = s.shell(ctx, r.Shell); err == nil {
			l.repaint(ctx)
		}
		s.turn <- struct{}{}
		if err != nil {
			return nil, err
		}
	}
	return s.attach(l), nil
}

// came ends an attempt to attach.
func (s *session) came() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.coming--
}

func (s *session) attach(l *proc) *Viewer {
	v := &Viewer{session: s, change: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	v.put(bytes.ReplaceAll([]byte(s.screen.text()), []byte("\n"), []byte("\r\n")))
	if s.screen.full() {
		v.put([]byte(otherScreen)) // the program will not switch again
	}
	s.viewers[v] = struct{}{}
	s.used = time.Now()
	if s.proc != l {
		v.finish(&guestpb.ShellEnded{Code: int32(l.status), Cause: l.cause})
	}
	_ = l.term.resize(s.size, s.screen.full())
	return v
}

// Next returns the next output, or io.EOF and how the shell ended.
func (v *Viewer) Next(ctx context.Context) ([]byte, *guestpb.ShellEnded, error) {
	for {
		v.mu.Lock()
		b, ended := v.buf, v.ended
		if len(b) > protocol.Chunk {
			b = b[:protocol.Chunk]
		}
		v.buf = v.buf[len(b):]
		v.stuck = v.stuck && len(v.buf) > viewerBacklog
		v.mu.Unlock()
		switch {
		case len(b) > 0:
			return b, nil, nil
		case ended != nil:
			return nil, ended, io.EOF
		}
		select {
		case <-v.change:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// Type sends input to the terminal.
func (v *Viewer) Type(ctx context.Context, b []byte) error {
	const interrupt = 0x03
	s := v.session
	s.mu.Lock()
	l := s.proc
	s.typed, s.used = true, time.Now()
	if l != nil && bytes.ContainsAny(b, "\r\n\x03") {
		l.stale = false // these make a new one
	}
	if s.call != nil && bytes.IndexByte(b, interrupt) >= 0 {
		s.call.pressed = true
	}
	s.mu.Unlock()
	if l == nil {
		return nil // Next reports the end
	}
	return l.term.typeIn(ctx, b)
}

// Resize sets the terminal's size for all viewers.
func (v *Viewer) Resize(r *guestpb.Resize) error {
	s := v.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size = sizeOf(r)
	if s.proc == nil {
		return nil
	}
	return s.proc.term.resize(s.size, false)
}

// Close detaches. The shell goes on.
func (v *Viewer) Close() {
	s := v.session
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.viewers, v)
	s.used = time.Now()
}

func sizeOf(r *guestpb.Resize) process.Size {
	if r.GetRows() == 0 || r.GetCols() == 0 {
		return usual
	}
	return process.Size{Rows: uint16(r.Rows), Cols: uint16(r.Cols)}
}

// put queues output. It never blocks, because the caller holds the session's lock.
func (v *Viewer) put(b []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended != nil {
		return
	}
	v.buf = append(v.buf, b...)
	if over := len(v.buf) - viewerMost; over > 0 {
		v.buf = append(bytes.Clone(skipped), v.buf[over+viewerBacklog:]...)
	}
	notify.Signal(v.change)
}

// finish records the shell's end.
func (v *Viewer) finish(how *guestpb.ShellEnded) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended == nil {
		v.ended = how
	}
	notify.Signal(v.change)
}

// throttle waits while a viewer has much unread output, to slow the program down to its speed.
func (s *session) throttle() {
	for late := time.Now().Add(stuckAfter); s.behind(time.Now().After(late)); time.Sleep(throttleCheck) {
	}
}

// behind reports whether a viewer has much unread output. Late says that it had its time: programs no
// longer wait for it until it has caught up.
func (s *session) behind(late bool) (behind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for v := range s.viewers {
		v.mu.Lock()
		much := len(v.buf) > viewerBacklog && v.ended == nil
		v.stuck = v.stuck || much && late
		behind = behind || much && !v.stuck
		v.mu.Unlock()
	}
	return behind
}
