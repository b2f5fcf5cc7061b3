//go:build linux

package process

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

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
