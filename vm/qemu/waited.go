//go:build linux

package qemu

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"osaurus-sandbox/vm"
)

func (m *machine) Waited() time.Duration {
	if m.State() != vm.Running {
		return 0
	}
	return waited(m.run.process.os.Pid)
}

// waited is for how long threads of a process could have run and had no processor, all of them
// together, as the kernel counts it. A kernel that does not says 0.
func waited(pid int) (sum time.Duration) {
	tasks := fmt.Sprintf("/proc/%d/task", pid)
	list, err := os.ReadDir(tasks)
	if err != nil {
		return 0
	}
	for _, task := range list {
		text, err := os.ReadFile(filepath.Join(tasks, task.Name(), "schedstat"))
		if err != nil {
			continue // it has ended meanwhile
		}
		var ran, waited time.Duration
		if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
			sum += waited
		}
	}
	return sum
}
