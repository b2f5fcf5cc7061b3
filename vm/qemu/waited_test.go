//go:build linux

package qemu_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm/qemu"
)

// A program that shares its processor with another waits for it, and the kernel says for how long.
func TestWaited(t *testing.T) {
	if text, err := os.ReadFile("/proc/self/schedstat"); err != nil || strings.HasPrefix(string(text), "0 0 ") {
		t.Skipf("this kernel does not count it: %q %v", text, err)
	}
	var one, all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	var pids []int
	for range 2 {
		busy := exec.Command("sh", "-c", "while :; do :; done")
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = busy.Process.Kill()
			_ = busy.Wait()
		})
		if err := unix.SchedSetaffinity(busy.Process.Pid, &one); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, busy.Process.Pid)
	}
	timetest.Eventually(t, "it has waited", func() bool { return qemu.Waited(pids[0]) >= 100*time.Millisecond })
}
