//go:build linux

// Package process starts commands in the guest, keeps hold of everything that they start, and reaps what has ended.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// Options say where a manager works.
type Options struct {
	// Cgroup is a directory of a cgroup2 file system where each command gets a
	// group of its own. Without one, a command is held by its process group
	// only, which it can leave: fit for tests.
	Cgroup string
	// Init makes the manager reap every child of this process, also those that
	// it inherited. It is for PID 1: nothing else in the process can then wait
	// for a child, so every child must be started by Start.
	Init bool
}

// Manager starts children and reaps them. Nothing else in its process waits for children, so a pid
// stays taken until the manager has noted the child's end, and a signal sent under its lock reaches
// no other process.
type Manager struct {
	opts  Options
	chld  chan os.Signal
	ended chan struct{}
	// patience is how long looking for a program may take, and how long a child may
	// take to become it.
	patience time.Duration

	mu       sync.Mutex
	children map[int]*Child
	next     uint64 // id of the next child
	orphans  uint64
	stuck    int // threads that wait for a share after their start was given up
}

// execWithin is enough for a child in a room with a hundredth of a processor. A child may be
// stopped before its execve, or wait for a share that hangs.
const execWithin = 30 * time.Second

// NewManager returns a manager that reaps until Close.
func NewManager(opts Options) (*Manager, error) {
	if opts.Cgroup != "" {
		if err := os.MkdirAll(opts.Cgroup, 0o755); err != nil {
			return nil, fmt.Errorf("make cgroup for commands: %w", err)
		}
	}
	// One slot is enough: a signal says "look", and each look sees everything.
	m := &Manager{opts: opts, chld: make(chan os.Signal, 1), ended: make(chan struct{}), patience: execWithin, children: map[int]*Child{}}
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
}

// closeCheck is how often Close looks for children.
const closeCheck = 5 * time.Millisecond

// Orphans returns how many processes were reaped that were not started here.
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

// wait reaps a child that has ended, or with -1 any; the pid is 0 if there is none.
func wait(pid int) (got int, status syscall.WaitStatus) {
	for {
		got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
		if err != syscall.EINTR {
			return got, status
		}
	}
}

// note records a child's end. The manager's lock is held.
func (m *Manager) note(c *Child, status syscall.WaitStatus) {
	delete(m.children, c.pid)
	c.status = status
	close(c.done)
}

// Spec is a program to start; the files become its descriptors 0 to 2.
type Spec struct {
	Args []string // Args[0] is looked up as Lookup does, in the place
	// Program, if not nil, is what is run whatever Args[0] is: also a file that the
	// place does not show.
	Program *os.File
	Env     []string
	Dir     string
	// Files are open in this process. With TTY the first is a terminal, which
	// becomes the child's controlling one.
	Files [3]uintptr
	TTY   bool
	Place Place // nil: the root of this process, as its user
	// Namespaces are flags (CLONE_NEWNS and the like) of new ones for the child.
	Namespaces uintptr
}

// Start starts a child in a session and group of its own. Its errors are
// *fault.Error: NotFound if there is no such program or directory, Rejected if
// it may not be executed, Unavailable where there is no room for one more, Timeout where
// it does not begin: a folder that it needs may not answer.
func (m *Manager) Start(s Spec) (*Child, error) {
	m.mu.Lock()
	m.next++
	c := &Child{manager: m, id: m.next, done: make(chan struct{})}
	m.mu.Unlock()
	err := m.launch(s, c)
	switch {
	case err == nil:
	case c.pid != 0:
		c.Release()
	default:
		c.removeGroup()
	}
	return c, err
}

// launch forks and waits for the child's program. It holds no lock, and no porter while
// it waits: a place at its limits can make that slow.
func (m *Manager) launch(s Spec, c *Child) error {
	i := &image{args: s.Args, env: s.Env, dir: s.Dir, files: s.Files, tty: s.TTY, namespaces: s.Namespaces, program: noFD, group: noFD}
	groups := m.opts.Cgroup
	if s.Place != nil {
		groups, i.user = s.Place.Cgroup(), s.Place.Credential()
	}
	if s.Program != nil {
		i.program = int(s.Program.Fd())
		defer runtime.KeepAlive(s.Program)
	}
	if groups != "" {
		fd, err := c.makeGroup(groups, markOf(s.Place))
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
	var err error
	if s.Place == nil {
		if err = look(); err == nil {
			err = fork()
		}
	} else {
		err = m.onThread(s, look, fork)
	}
	if err != nil {
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

// late says that a program has not begun in time. What has held it up is not known.
func (s Spec) late(after time.Duration) error {
	advice := "Try again later: its room may be at a limit, or a folder that it needs on a share that hangs."
	if s.Dir != "/" {
		advice = "Try again later, or in another folder: " + s.Dir + " may be on a share that hangs, or its room at a limit."
	}
	return fault.Newf(fault.Timeout, "start program", s.Args[0], "it has not begun after %v", after).Advise(advice)
}

// fork forks a child. The lock keeps other children from inheriting its pipe, and reap from
// finding it before it is known.
func (m *Manager) fork(i *image, c *Child) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.pid, c.start, err = i.fork(); err == nil {
		m.children[c.pid] = c
	}
	return err
}
