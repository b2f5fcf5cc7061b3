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

	"osaurus-sandbox/internal/notify"
)

// Child is a running command, including all processes that it has started.
type Child struct {
	// Pipes and Terminal are our ends of what Spec asked for, which the caller closes.
	Pipes    [3]*os.File
	Terminal *os.File

	manager *Manager
	id      uint64
	pid     int
	cgroup  string
	done    chan struct{}
	status  syscall.WaitStatus // valid once done is closed
	start   *start             // nil once the program runs

	release sync.Once
}

// makeGroup creates the child's cgroup and opens it.
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

// ID returns a number that the manager never uses again.
func (c *Child) ID() uint64 { return c.id }

// PID returns the process id of the first process.
func (c *Child) PID() int { return c.pid }

// Done returns a channel that is closed when the first process has been reaped.
func (c *Child) Done() <-chan struct{} { return c.done }

// Status returns how the first process ended. It is valid after Done.
func (c *Child) Status() syscall.WaitStatus { return c.status }

// Killed reports whether a process ended by SIGKILL.
func Killed(s syscall.WaitStatus) bool { return s.Signaled() && s.Signal() == unix.SIGKILL }

// Signal sends a signal to the process group of the first process. It fails with ESRCH if that
// process has ended.
func (c *Child) Signal(sig syscall.Signal) error {
	c.manager.mu.Lock()
	defer c.manager.mu.Unlock()
	if c.manager.children[c.pid] != c {
		return unix.ESRCH
	}
	return unix.Kill(-c.pid, sig)
}

// Kill kills the command and all processes that it started.
func (c *Child) Kill() {
	if c.cgroup != "" {
		// Fails only if the group and its processes are gone.
		_ = os.WriteFile(filepath.Join(c.cgroup, "cgroup.kill"), []byte("1"), 0)
		return
	}
	// The kernel does not reuse the number of a process group that has members.
	_ = unix.Kill(-c.pid, unix.SIGKILL)
}

const (
	// endWithin is how long Release waits for a killed command. A process that waits for a share
	// ends only when the share answers.
	endWithin = 5 * time.Second
	// emptyWithin is how long Release then waits for the group to become empty. A group that is
	// left behind costs a few kilobytes.
	emptyWithin = 2 * time.Second
	emptyCheck  = 2 * time.Millisecond
)

// Release kills the command and waits a limited time for all its processes to end. Done tells
// whether the first one has. Release may be called more than once.
func (c *Child) Release() {
	c.release.Do(func() {
		// Usually no process is left and the group can be removed at once.
		if notify.Closed(c.done) && c.cgroup != "" && unix.Rmdir(c.cgroup) == nil {
			return
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

// Processes returns the pids of the command's processes. Without a cgroup it returns only the
// first.
func (c *Child) Processes() []int {
	var pids []int
	if c.cgroup == "" {
		if !notify.Closed(c.done) {
			pids = append(pids, c.pid)
		}
		return pids
	}
	b, _ := os.ReadFile(filepath.Join(c.cgroup, "cgroup.procs")) // fails if the group is gone
	for line := range strings.Lines(string(b)) {
		// 0 is a process that is not visible in this pid namespace.
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// SignalAll sends a signal to all processes of the command.
func (c *Child) SignalAll(sig syscall.Signal) {
	if c.cgroup == "" {
		_ = c.Signal(sig)
		return
	}
	for _, pid := range c.Processes() { // of 4 million numbers, the kernel reuses none so soon
		_ = unix.Kill(pid, sig)
	}
}

// markSeparator separates the child's number from its mark in the name of a group.
const markSeparator = "."

// Mark returns the mark of the child that a process belongs to, or "". It can be trusted, because a
// process cannot leave its cgroup. The caller must check afterwards that the pid has not been
// reused.
func Mark(pid int) (string, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return "", fmt.Errorf("find the group of a process: %w", err)
	}
	return markIn(text)
}

// markIn parses /proc/PID/cgroup.
func markIn(text []byte) (string, error) {
	for line := range bytes.Lines(text) {
		where, ok := strings.CutPrefix(string(bytes.TrimSuffix(line, []byte("\n"))), "0::") // cgroup2
		if !ok {
			continue
		}
		number, mark, marked := strings.Cut(path.Base(where), markSeparator)
		if _, err := strconv.ParseUint(number, 10, 64); err != nil || !marked {
			return "", nil
		}
		return mark, nil
	}
	return "", errors.New("the process is in no cgroup2 group")
}
