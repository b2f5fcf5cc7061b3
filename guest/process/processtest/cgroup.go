// Package processtest provides cgroups and hanging shares for tests of the guest's commands.
package processtest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// leftLimit bounds the wait for killed commands to leave a group.
const leftLimit = 30 * time.Second

// Cgroup returns a new group, which must be empty when the test ends. If this host has no writable
// cgroup, it logs that and returns "".
func Cgroup(t testing.TB) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			continue
		}
		dir, err := os.MkdirTemp(root, "osaurus-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			err := unix.Rmdir(dir)
			for end := time.Now().Add(leftLimit); err == unix.EBUSY && time.Now().Before(end); err = unix.Rmdir(dir) {
				time.Sleep(10 * time.Millisecond)
			}
			if err != nil {
				t.Errorf("processes are left in %s: %v", dir, err)
			}
		})
		return dir
	}
	t.Log("\n*** NO CGROUP2 to write to on this host: processes that leave their group are not covered here, only in the guest tier.")
	return ""
}
