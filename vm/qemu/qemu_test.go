//go:build linux

package qemu_test

import (
	"os"
	"path/filepath"
	"testing"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
	"osaurus-sandbox/vm/vmtest"
)

func TestConformance(t *testing.T) {
	for _, arch := range []vm.Arch{vm.AMD64, vm.ARM64} {
		t.Run(string(arch), func(t *testing.T) {
			vmtest.Run(t, vmtest.Suite{Driver: &qemu.Driver{}, Arch: arch})
			noChildren(t)
		})
	}
}

// noChildren checks that this process has no children left.
func noChildren(t *testing.T) {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		t.Fatalf("cannot list this process's children: %v", err)
	}
	for _, list := range lists {
		if b, err := os.ReadFile(list); err == nil && len(b) > 0 {
			t.Errorf("processes are left: %s", b)
		}
	}
}
