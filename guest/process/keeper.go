//go:build linux

// Package process starts commands in the guest, keeps hold of everything that they start, and reaps what has ended.
package process

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Options say where a keeper works.
type Options struct {
	// Cgroup is a directory of a cgroup2 file system where each command gets a
	// group of its own. Without one, a command is held by its process group
	// only, which it can leave: fit for tests.
	Cgroup string
	// Init makes the keeper reap every child of this process, also those that
	// it inherited. It is for PID 1: nothing else in the process can then wait
	// for a child, so every child must be started by Start.
	Init bool
}

// Keeper starts children and reaps them. It is the only one in its process
// who waits: a pid stays taken until the keeper has noted the child's end under
// its lock, so a signal sent under that lock never reaches a stranger.
type Keeper struct {
	opts  Options
	chld  chan os.Signal
	ended chan struct{}

	mu       sync.Mutex
	children map[int]*Child
	next     uint64 // id of the next child
	orphans  uint64
}

// NewKeeper returns a keeper that reaps until Close.
func NewKeeper(opts Options) (*Keeper, error) {
	if opts.Cgroup != "" {
		if err := os.MkdirAll(opts.Cgroup, 0o755); err != nil {
			return nil, fmt.Errorf("make cgroup for commands: %w", err)
		}
	}
	// One slot is enough: a signal says "look", and each look sees everything.
	k := &Keeper{opts: opts, chld: make(chan os.Signal, 1), ended: make(chan struct{}), children: map[int]*Child{}}
	signal.Notify(k.chld, unix.SIGCHLD)
	go func() {
		defer close(k.ended)
		for range k.chld {
			k.reap()
		}
	}()
	return k, nil
}

// Close stops reaping once the last child has ended.
func (k *Keeper) Close() {
	for {
		k.mu.Lock()
		held := len(k.children)
		k.mu.Unlock()
		if held == 0 {
			break
		}
		time.Sleep(closeCheck)
	}
	signal.Stop(k.chld)
	close(k.chld)
	<-k.ended
}

// closeCheck is how often Close looks for children.
const closeCheck = 5 * time.Millisecond

// Orphans returns how many processes were reaped that were not started here.
func (k *Keeper) Orphans() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.orphans
}

func (k *Keeper) reap() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.opts.Init {
		for {
			pid, status := wait(-1)
			if pid <= 0 {
				return
			}
			if c := k.children[pid]; c != nil {
				k.note(c, status)
			} else {
				k.orphans++
			}
		}
	}
	for pid, c := range k.children {
		if got, status := wait(pid); got == pid {
			k.note(c, status)
		}
	}
}

// note records a child's end. The keeper's lock is held.
func (k *Keeper) note(c *Child, status syscall.WaitStatus) {
	delete(k.children, c.pid)
	c.status = status
	close(c.done)
}

func wait(pid int) (int, syscall.WaitStatus) {
	var status syscall.WaitStatus
	for {
		got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
		if err != syscall.EINTR {
			return got, status
		}
	}
}

// Spec is a program to start. Path is what is executed; the files become its
// descriptors 0 to 2.
type Spec struct {
	Path  string
	Args  []string
	Env   []string
	Dir   string
	Files [3]uintptr
}

// Start starts a child in a session and group of its own.
func (k *Keeper) Start(s Spec) (*Child, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next++
	c := &Child{keeper: k, id: k.next, done: make(chan struct{})}
	attr := &syscall.ProcAttr{Dir: s.Dir, Env: s.Env, Files: s.Files[:], Sys: &syscall.SysProcAttr{Setsid: true}}
	if k.opts.Cgroup != "" {
		c.cgroup = filepath.Join(k.opts.Cgroup, strconv.FormatUint(c.id, 10))
		if err := os.Mkdir(c.cgroup, 0o755); err != nil {
			return nil, fmt.Errorf("make cgroup: %w", err)
		}
		fd, err := unix.Open(c.cgroup, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			_ = os.Remove(c.cgroup)
			return nil, fmt.Errorf("open cgroup: %w", err)
		}
		defer unix.Close(fd)
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, fd
	}
	// Not os.StartProcess: the handle that it takes on a child is of no use
	// beside a keeper that reaps everything.
	pid, err := syscall.ForkExec(s.Path, s.Args, attr)
	if err != nil {
		if c.cgroup != "" {
			_ = os.Remove(c.cgroup)
		}
		return nil, err
	}
	c.pid = pid
	k.children[pid] = c
	return c, nil
}
