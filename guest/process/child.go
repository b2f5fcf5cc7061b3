//go:build linux

package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Child is a command with all processes that it has started.
type Child struct {
	manager *Manager
	id      uint64
	pid     int
	cgroup  string
	done    chan struct{}
	status  syscall.WaitStatus // after done
	start   *start             // until it runs its program

	release sync.Once
}

// makeGroup makes the child's cgroup and opens it.
func (c *Child) makeGroup(in, mark string) (fd int, err error) {
	name := strconv.FormatUint(c.id, 10)
	if mark != "" {
		name += markSeparator + mark
	}
	c.cgroup = filepath.Join(in, name)
	if err := os.Mkdir(c.cgroup, 0o755); err != nil {
		c.cgroup = ""
		return 0, err
	}
	return unix.Open(c.cgroup, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// ID is a number that no other child of the manager has or had.
func (c *Child) ID() uint64 { return c.id }

// PID is the process id of the first process.
func (c *Child) PID() int { return c.pid }

// Done is closed when the first process has ended and was reaped.
func (c *Child) Done() <-chan struct{} { return c.done }

// Status is how the first process ended. It is valid after Done.
func (c *Child) Status() syscall.WaitStatus { return c.status }

// Killed reports whether a process ended by SIGKILL.
func Killed(s syscall.WaitStatus) bool { return s.Signaled() && s.Signal() == unix.SIGKILL }

// Signal sends a signal to the process group of the first process, if that has
// not ended: afterwards it fails with ESRCH.
func (c *Child) Signal(sig syscall.Signal) error {
	c.manager.mu.Lock()
	defer c.manager.mu.Unlock()
	if c.manager.children[c.pid] != c {
		return unix.ESRCH
	}
	return unix.Kill(-c.pid, sig)
}

// Kill kills the command and everything that it started, wherever that went.
func (c *Child) Kill() {
	if c.cgroup != "" {
		// Fails only when the group is gone, and with it all that was in it.
		_ = os.WriteFile(filepath.Join(c.cgroup, "cgroup.kill"), []byte("1"), 0)
		return
	}
	// The number of a process group is not given to another process while
	// somebody is in the group.
	_ = unix.Kill(-c.pid, unix.SIGKILL)
}

const (
	// endWithin is how long Release waits for a killed command. One that waits for a share ends
	// only when that answers.
	endWithin = 5 * time.Second
	// How long its group may need afterwards to become empty, and how often to look. What
	// is still in it then leaves it behind, which costs a few kilobytes.
	emptyWithin = 2 * time.Second
	emptyCheck  = 2 * time.Millisecond
)

// Release kills what runs of a command and returns when nothing of it remains, or
// after a while: Done says whether it has ended. It may be called often.
func (c *Child) Release() {
	c.release.Do(func() {
		select {
		case <-c.done:
			// Mostly nothing is left, and an empty group can be removed.
			if c.cgroup != "" && unix.Rmdir(c.cgroup) == nil {
				return
			}
		default:
		}
		c.Kill()
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			<-c.done
			c.removeGroup()
		}()
		select {
		case <-gone:
		case <-time.After(endWithin):
		}
	})
}

func (c *Child) removeGroup() {
	if c.cgroup == "" {
		return
	}
	for end := time.Now().Add(emptyWithin); unix.Rmdir(c.cgroup) == unix.EBUSY && time.Now().Before(end); {
		time.Sleep(emptyCheck)
	}
}

// Processes are the pids of all that runs of a command. Without a cgroup it is the
// first process only.
func (c *Child) Processes() []int {
	var pids []int
	if c.cgroup == "" {
		select {
		case <-c.done:
		default:
			pids = append(pids, c.pid)
		}
		return pids
	}
	b, _ := os.ReadFile(filepath.Join(c.cgroup, "cgroup.procs")) // fails when the group is gone
	for line := range strings.Lines(string(b)) {
		// 0 is a process that this namespace does not see.
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// SignalAll sends a signal to all that runs of a command, wherever it went.
func (c *Child) SignalAll(sig syscall.Signal) {
	if c.cgroup == "" {
		_ = c.Signal(sig)
		return
	}
	held := map[int]int{} // descriptors by pid
	for _, pid := range c.Processes() {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			held[pid] = fd
		}
	}
	// A number that could have become a stranger's before it was held on to is
	// not in the group any more.
	for _, pid := range c.Processes() {
		if fd, ok := held[pid]; ok {
			_ = unix.PidfdSendSignal(fd, sig, nil, 0)
		}
	}
	for _, fd := range held {
		_ = unix.Close(fd)
	}
}

// markSeparator is between the number of a child's group and its mark.
const markSeparator = "."

// Mark returns the mark of the child that a process belongs to, or "". The kernel says it: a process
// cannot leave its group. The caller makes sure that the pid is still that of the process.
func Mark(pid int) (string, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return "", fmt.Errorf("find the group of a process: %w", err)
	}
	return markIn(text)
}

// markIn reads what the kernel says of a process's groups.
func markIn(text []byte) (string, error) {
	for line := range bytes.Lines(text) {
		where, ok := strings.CutPrefix(string(bytes.TrimSuffix(line, []byte("\n"))), "0::") // of cgroup2
		if !ok {
			continue
		}
		number, mark, marked := strings.Cut(path.Base(where), markSeparator)
		if _, err := strconv.ParseUint(number, 10, 64); err != nil || !marked {
			return "", nil
		}
		return mark, nil
	}
	return "", errors.New("the process has no group of cgroup2")
}
