//go:build linux

// Package process starts commands in the guest, tracks all their processes, and reaps them.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// Options configure a Manager.
type Options struct {
	// Cgroup is a cgroup2 directory in which each command gets its own group. If it is empty,
	// commands are tracked by process group, which they can leave: use that for tests only.
	Cgroup string
	// Init makes the manager reap every child of this process, including inherited ones. It is for
	// PID 1. All children must then be started with Start, since nothing else can wait for them.
	Init bool
}

// Manager starts and reaps children. Only it waits for children, so a pid is not reused before the
// manager has recorded the child's end, and a signal sent under its lock cannot reach another
// process.
type Manager struct {
	opts  Options
	null  *os.File // /dev/null
	chld  chan os.Signal
	ended chan struct{}
	// patience bounds the search for a program, and then the time until the child executes it.
	patience time.Duration

	mu       sync.Mutex
	children map[int]*Child
	next     uint64 // last id
	orphans  uint64

	starting atomic.Int64 // threads: see maxStarting
}

// execWithin is long enough for a child in a room with 1% of a processor. It is needed because a
// child may be stopped before its execve, or wait for a share that hangs.
const execWithin = 30 * time.Second

// NewManager returns a manager. It reaps until Close.
func NewManager(opts Options) (*Manager, error) {
	if opts.Cgroup != "" {
		if err := os.MkdirAll(opts.Cgroup, 0o755); err != nil {
			return nil, fmt.Errorf("make cgroup for commands: %w", err)
		}
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	// One slot is enough: each signal makes reap look at all children.
	m := &Manager{opts: opts, null: null, chld: make(chan os.Signal, 1), ended: make(chan struct{}), patience: execWithin, children: map[int]*Child{}}
	signal.Notify(m.chld, unix.SIGCHLD)
	go func() {
		defer close(m.ended)
		for range m.chld {
			m.reap()
		}
	}()
	return m, nil
}

// Close stops reaping once the last child has ended.
func (m *Manager) Close() {
	for {
		m.mu.Lock()
		held := len(m.children)
		m.mu.Unlock()
		if held == 0 {
			break
		}
		time.Sleep(closeCheck)
	}
	signal.Stop(m.chld)
	close(m.chld)
	<-m.ended
	_ = m.null.Close()
}

// closeCheck is how often Close looks for children.
const closeCheck = 5 * time.Millisecond

// Orphans returns the number of reaped processes that Start did not start.
func (m *Manager) Orphans() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.orphans
}

func (m *Manager) reap() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.opts.Init {
		for {
			pid, status := wait(-1)
			if pid <= 0 {
				return
			}
			if c := m.children[pid]; c != nil {
				m.note(c, status)
			} else {
				m.orphans++
			}
		}
	}
	for pid, c := range m.children {
		if got, status := wait(pid); got == pid {
			m.note(c, status)
		}
	}
}

// wait reaps a child that has ended, or any child if pid is -1. It returns 0 if there is none.
func wait(pid int) (got int, status syscall.WaitStatus) {
	for {
		got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
		if err != syscall.EINTR {
			return got, status
		}
	}
}

// note records a child's end. The caller holds m.mu.
func (m *Manager) note(c *Child, status syscall.WaitStatus) {
	delete(m.children, c.pid)
	c.status = status
	close(c.done)
}

// Spec describes a program to start.
type Spec struct {
	Args []string // Args[0] is resolved by Lookup in the place
	// Program, if not nil, is executed instead of Args[0]. The file need not be visible in the
	// place.
	Program *os.File
	Env     []string
	Dir     string
	Streams [3]Stream // the child's descriptors 0 to 2
	Input   *os.File  // descriptor 0, if not nil
	// Terminal, if not nil, is the size of a new terminal, which all three are. It is the controlling
	// one.
	Terminal *Size
	Place    Place // nil for the root and user of this process
	// Namespaces are CLONE_NEW* flags of the namespaces to create for the child.
	Namespaces uintptr
}

// Start starts a child in its own session and process group. Its errors are *fault.Error: InvalidArgs
// if an argument or variable is too long or holds a NUL byte, NotFound if the program or directory does
// not exist, Rejected if it may not be executed or too many processes run, Unavailable if memory is
// short, Timeout if it does not start in time, for example because a share does not answer.
func (m *Manager) Start(s Spec) (*Child, error) {
	if len(s.Args) == 0 || s.Args[0] == "" {
		return nil, fault.Newf(fault.InvalidArgs, "start program", "", "no program was named")
	}
	m.mu.Lock()
	m.next++
	c := &Child{manager: m, id: m.next, done: make(chan struct{})}
	m.mu.Unlock()
	t, err := m.open(s, c)
	if err == nil {
		err = m.launch(s, c, t)
	}
	t.close()
	switch {
	case err == nil:
		return c, nil
	case c.pid != 0:
		c.Release()
	default:
		c.removeGroup()
	}
	c.CloseStreams()
	return c, err
}

// launch forks and waits until the child has executed its program. It holds no lock while it waits,
// because that can be slow in a room at its limits.
func (m *Manager) launch(s Spec, c *Child, t streams) error {
	i := &image{args: s.Args, env: s.Env, dir: s.Dir, tty: s.Terminal != nil, namespaces: s.Namespaces, program: noFD, group: noFD}
	for n, f := range t.files {
		i.files[n] = f.Fd()
	}
	groups, mark := m.opts.Cgroup, ""
	if s.Place != nil {
		groups, i.user, mark = s.Place.Cgroup(), s.Place.Credential(), s.Place.Mark()
	}
	if s.Program != nil {
		i.program = int(s.Program.Fd())
		defer runtime.KeepAlive(s.Program)
	}
	if groups != "" {
		fd, err := c.makeGroup(groups, mark)
		if err != nil {
			return startFault("make group for command", s.Args[0], err)
		}
		defer unix.Close(fd)
		i.group = fd
	}
	look := func() error {
		return As(i.user, func() (err error) {
			if err := checkDir(s.Dir); err != nil || s.Program != nil {
				return err
			}
			i.path, err = Lookup(s.Args[0], s.Dir, s.Env)
			return err
		})
	}
	fork := func() error {
		if err := m.fork(i, c); err != nil {
			return startFault("start program", s.Args[0], err)
		}
		return nil
	}
	if err := m.onThread(s, look, fork); err != nil {
		return err
	}
	switch err := c.start.await(m.patience); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return s.late(m.patience)
	case err != nil:
		return startFault("start program", s.Args[0], err)
	}
	c.start = nil
	return nil
}

// late returns the error for a program that has not started in time. The cause is not known.
func (s Spec) late(after time.Duration) error {
	advice := "Try again later. Its room may be at a limit, or a share that it needs may hang."
	if s.Dir != "/" {
		advice = "Try again later or in another folder: " + s.Dir + " may be on a share that hangs, or the room may be at a limit."
	}
	return fault.Newf(fault.Timeout, "start program", s.Args[0], "it has not started after %v", after).Advise(advice)
}

// fork forks a child. It holds the lock so that other children do not inherit the pipe, and so that
// reap does not see the child before it is registered.
func (m *Manager) fork(i *image, c *Child) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.pid, c.start, err = i.fork(); err == nil {
		m.children[c.pid] = c
	}
	return err
}
