//go:build linux

package process

import (
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Child is a command that was started, with all that it started in turn.
type Child struct {
	keeper *Keeper
	id     uint64
	pid    int
	place  Place
	done   chan struct{}
	status syscall.WaitStatus // after done

	grouped bool // a group of the kernel's holds it

	// Others have the group after the child, so it is used only under the lock.
	groupMu sync.Mutex
	group   *cgroup // nil after Release, and if it is not grouped
	killed  bool

	release sync.Once
}

// joinGroup gets the child a group in a directory.
func (c *Child) joinGroup(in string) (err error) {
	name := strconv.FormatUint(c.id, 10)
	if mark := markOf(c.place); mark != "" {
		name += markSeparator + mark
	}
	c.group, err = c.keeper.groupFor(c.place, filepath.Join(in, name))
	c.grouped = err == nil
	return err
}

// ID is a number that no other child of the keeper has or had.
func (c *Child) ID() uint64 { return c.id }

// PID is the process id of the first process.
func (c *Child) PID() int { return c.pid }

// Done is closed when the first process has ended and was reaped.
func (c *Child) Done() <-chan struct{} { return c.done }

// Status is how the first process ended. It is valid after Done.
func (c *Child) Status() syscall.WaitStatus { return c.status }

// Signal sends a signal to the process group of the first process, if that has
// not ended: afterwards it fails with ESRCH.
func (c *Child) Signal(sig syscall.Signal) error {
	c.keeper.mu.Lock()
	defer c.keeper.mu.Unlock()
	if c.keeper.children[c.pid] != c {
		return unix.ESRCH
	}
	return unix.Kill(-c.pid, sig)
}

// Kill kills the command and everything that it started, wherever that went.
func (c *Child) Kill() {
	if c.grouped {
		c.groupMu.Lock()
		defer c.groupMu.Unlock()
		if c.group != nil {
			c.killed = true
			c.group.kill()
		}
		return
	}
	// The number of a process group is not given to another process while
	// somebody is in the group.
	_ = unix.Kill(-c.pid, unix.SIGKILL)
}

// How long a killed group may need to become empty, and how often to look.
// A process in an uninterruptible wait can take longer; its empty group is
// then left behind, which costs a few kilobytes.
const (
	emptyWithin = 2 * time.Second
	emptyCheck  = 2 * time.Millisecond
)

// Release kills what runs of a command and returns when nothing of it remains.
// It may be called often.
func (c *Child) Release() {
	c.release.Do(func() {
		select {
		case <-c.done:
			if c.grouped && c.giveUp() { // mostly nothing is left
				return
			}
		default:
		}
		c.Kill()
		<-c.done
		if !c.grouped {
			return
		}
		for end := time.Now().Add(emptyWithin); !c.giveUp() && time.Now().Before(end); {
			time.Sleep(emptyCheck)
		}
		c.abandon()
	})
}

// giveUp gives up the child's group when it is empty, and reports whether it has.
func (c *Child) giveUp() bool {
	c.groupMu.Lock()
	defer c.groupMu.Unlock()
	// One that was killed may still kill what is put there.
	if kept := !c.killed && c.keeper.keep(c.place, c.group); !kept && c.group.remove() == unix.EBUSY {
		return false
	}
	c.group = nil
	return true
}

// abandon leaves a group behind that does not become empty.
func (c *Child) abandon() {
	c.groupMu.Lock()
	defer c.groupMu.Unlock()
	if c.group != nil {
		c.group.close()
		c.group = nil
	}
}
