//go:build linux

package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/notify"
)

// proc is one process of a session's shell.
type proc struct {
	session *session
	kind    kind
	child   *process.Child
	term    terminal
	spool   *spool
	said    syscall.RawConn
	rest    string        // its descriptor 0 while it runs no call
	ready   chan struct{} // closed when it can take calls
	fresh   chan struct{} // holds one token when there is a new prompt
	failed  chan struct{} // closed when it has reported that it cannot run calls
	shown   chan struct{} // closed at the end of the terminal's output
	ended   chan struct{} // closed when all of it is cleaned up

	// Guarded by the session's lock.
	frames frames
	orders map[string]*order // spooled calls by nonce; nil at the end
	calm   *unix.Termios     // the terminal's modes at the prompt
	stale  bool              // the prompt is outdated by a call
	cause  string            // why it was ended; empty if it exited
	status int               // after ended: its exit code, or 128 + n
}

// order is a spooled call.
type order struct {
	nonce  string
	call   *call         // nil for a question whether the shell answers
	begun  chan struct{} // closed when the shell has begun it
	over   chan struct{} // closed when it has ended
	status int           // after over
}

// readyWithin bounds a shell's start, including its profile. It is generous for busy emulated
// guests.
const readyWithin = 20 * time.Second

// errNotReady reports that a shell ended or was silent before it could take calls.
var errNotReady = errors.New("the shell did not start")

// launch starts a shell and returns when it can take calls.
func (s *session) launch(ctx context.Context, room Room, spec *guestpb.Shell, k kind, profile bool) (_ *proc, err error) {
	s.mu.Lock()
	if err := s.over(); err != nil {
		s.mu.Unlock()
		return nil, err
	}
	s.starting.Add(1)
	size := s.size
	s.screen.tty = parser{} // the old terminal's state is gone
	s.mu.Unlock()
	defer s.starting.Done()
	exports := protocol.Texts(spec.Env)
	folder, inside, err := room.Spool()
	if err != nil {
		return nil, err
	}
	d, err := openSpool(folder, inside, func(dir string) map[string]string {
		k = k.in(dir, exports, profile)
		return k.files
	})
	if err != nil {
		return nil, err
	}
	l := &proc{
		session: s, kind: k, spool: d, orders: map[string]*order{},
		ready: make(chan struct{}), fresh: make(chan struct{}, 1), failed: make(chan struct{}), shown: make(chan struct{}), ended: make(chan struct{}),
	}
	if err := l.spawn(room, spec, exports, size); err != nil {
		d.remove()
		return nil, err
	}
	go l.show()
	go l.readReports()
	go l.cleanUp()
	late := time.NewTimer(readyWithin)
	defer late.Stop()
	select {
	case <-l.ready:
	case <-s.closing: // see below
	case <-l.ended:
		return nil, fmt.Errorf("%w: it ended", errNotReady)
	case <-late.C:
		l.end("it did not start")
		return nil, fmt.Errorf("%w within %v", errNotReady, readyWithin)
	case <-ctx.Done():
		l.end("the caller gave up")
		return nil, ctx.Err()
	}
	l.rest = l.standardInput()
	s.mu.Lock()
	err, cause := s.over(), s.closed
	if err == nil {
		s.proc = l
	}
	s.mu.Unlock()
	if err != nil {
		l.end(cause)
		return nil, err
	}
	return l, nil
}

// spawn starts the process on a new terminal.
func (l *proc) spawn(room Room, spec *guestpb.Shell, exports []string, size process.Size) error {
	said, err := l.spool.said.SyscallConn()
	if err != nil {
		return err
	}
	l.said = said
	env := process.MergeEnv(room.Environment(false), []string{"TERM=xterm-256color"}, exports, l.kind.env)
	l.child, err = l.session.manager.processes.Start(process.Spec{
		Args: l.kind.args, Env: env, Dir: protocol.Folder(room.Home(), spec.Dir), Terminal: &size, Place: room.Place(false),
	})
	if err == nil {
		l.term = terminal{l.child.Terminal}
	}
	return err
}

// show copies the terminal's output to the session, after the reports and command output that
// precede it.
func (l *proc) show() {
	defer close(l.shown)
	buf := make([]byte, 16<<10) // a terminal returns less at once
	for {
		n, err := l.term.file.Read(buf)
		l.session.mu.Lock()
		if c := l.session.call; c != nil {
			c.drain(l.listen)
		} else {
			l.listen()
		}
		if n > 0 {
			l.session.publish(buf[:n])
		}
		l.session.mu.Unlock()
		if err != nil {
			return // EIO: the other side is closed
		}
		l.session.throttle()
	}
}

// readReports reads the shell's reports until the FIFO is closed.
func (l *proc) readReports() {
	_ = l.said.Read(func(fd uintptr) bool {
		l.session.mu.Lock()
		defer l.session.mu.Unlock()
		l.drainReports(int(fd))
		return false
	})
}

// listen reads pending reports of the shell. The caller holds the session's lock.
func (l *proc) listen() {
	_ = l.said.Control(func(fd uintptr) { l.drainReports(int(fd)) })
}

// drainReports reads at most the capacity of a FIFO, so that a flood does not keep it busy.
func (l *proc) drainReports(fd int) {
	buf := make([]byte, 4<<10)
	for range 64 << 10 / len(buf) {
		n, err := unix.Read(fd, buf)
		if n <= 0 {
			if err == unix.EINTR {
				continue
			}
			return
		}
		for b := buf[:n]; ; {
			f, rest, ok := l.frames.next(b)
			if !ok {
				break
			}
			l.handle(f)
			b = rest
		}
	}
}

// handle handles a frame. The caller holds the session's lock.
func (l *proc) handle(f frame) {
	switch f.kind {
	case ready:
		shut(l.ready)
	case broken:
		shut(l.failed)
	case begun:
		if o := l.orders[f.nonce]; o != nil && shut(o.begun) && o.call != nil {
			l.forgetQuestions()
			o.call.began = time.Now()
			l.session.announce(o.call.text)
		}
	case fresh:
		l.stale = false
		notify.Signal(l.fresh)
	case over, stale:
		o := l.orders[f.nonce]
		if o == nil || !notify.Closed(o.begun) || notify.Closed(o.over) {
			return
		}
		o.status, l.stale = f.status, l.stale || f.kind == stale
		close(o.over)
		if o.call == nil {
			l.forget(o)
			return
		}
		o.call.drain(func() {})
		l.session.endLine() // before the prompt is painted again
	}
}

// cleanUp waits for the shell's end and cleans up. Processes that the shell left running are killed.
func (l *proc) cleanUp() {
	<-l.child.Done()
	l.child.Release()
	// Without a cgroup, as in tests, a process may still hold the terminal.
	_ = l.term.file.SetReadDeadline(time.Now().Add(time.Second))
	<-l.shown
	s := l.session
	s.mu.Lock()
	l.listen()
	if st := l.child.Status(); st.Signaled() {
		l.status = 128 + int(st.Signal())
	} else {
		l.status = st.ExitStatus()
	}
	if s.proc == l {
		s.proc = nil
		s.lost = l.cause
		if s.lost == "" {
			s.lost = fmt.Sprintf("it had ended with status %d", l.status)
		}
		for v := range s.viewers {
			v.finish(&guestpb.ShellEnded{Code: int32(l.status), Cause: l.cause})
		}
	}
	for nonce := range l.orders {
		l.spool.clear(nonce)
	}
	l.orders = nil
	s.mu.Unlock()
	// Not under the lock: closing waits for readers, which wait for the lock.
	l.spool.remove()
	_ = l.term.file.Close()
	close(l.ended)
}

// end kills the shell with all its processes and waits for the cleanup.
func (l *proc) end(cause string) {
	l.session.mu.Lock()
	if l.cause == "" {
		l.cause = cause
	}
	l.session.mu.Unlock()
	l.child.Kill()
	<-l.ended
}

// press types the key that makes a shell at its prompt run the spooled call.
func (l *proc) press(ctx context.Context) error {
	return l.term.typeIn(ctx, []byte(l.kind.trigger))
}

// repaint makes the shell print a new prompt if the current one is outdated. The caller has the
// turn.
func (l *proc) repaint(ctx context.Context) {
	l.session.mu.Lock()
	stale := l.stale
	l.session.mu.Unlock()
	if !stale || !l.atPrompt() {
		return
	}
	select {
	case <-l.fresh:
	default:
	}
	if l.term.typeIn(ctx, []byte(l.kind.anew)) != nil {
		return
	}
	select {
	case <-l.fresh:
	case <-l.ended:
	case <-time.After(pressAgain):
	}
}

// atPrompt reports whether the shell waits for a line. It relies on the kernel, not on the shell:
// the foreground group and the terminal modes.
func (l *proc) atPrompt() bool {
	if l.term.foreground() != l.child.PID() {
		return false
	}
	modes := l.term.modes()
	return modes != nil && (!l.kind.editing || modes.Lflag&(unix.ICANON|unix.ECHO) == 0)
}

// aside reports whether the shell seems to be at its prompt during a call: it is in the foreground
// and reads the terminal. That happens after a signal made it drop what it ran.
func (l *proc) aside() bool {
	return l.term.foreground() == l.child.PID() && l.rest != "" && l.standardInput() == l.rest
}

// standardInput returns the shell's descriptor 0.
func (l *proc) standardInput() string {
	to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", l.child.PID()))
	return to
}

// cwd returns the shell's working directory from the kernel.
func (l *proc) cwd() string {
	dir, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", l.child.PID()))
	return strings.TrimSuffix(dir, " (deleted)")
}

// signal signals the foreground group. The shell itself gets only SIGINT.
func (l *proc) signal(sig unix.Signal) {
	if sig == unix.SIGINT {
		l.term.interrupt()
		return
	}
	group, shell := l.term.foreground(), l.child.PID()
	// A reused id is not in the shell's session.
	if sid, err := unix.Getsid(group); group > 0 && group != shell && err == nil && sid == shell {
		_ = unix.Kill(-group, sig)
	}
}

// alone reports whether the shell has no other processes.
func (l *proc) alone() bool {
	return len(l.child.Processes()) <= 1
}

// shut closes a channel unless it is closed and reports whether it was open.
func shut(c chan struct{}) bool {
	if notify.Closed(c) {
		return false
	}
	close(c)
	return true
}
