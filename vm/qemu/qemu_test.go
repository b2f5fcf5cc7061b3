//go:build linux

package qemu_test

import (
	"testing"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
	"osaurus-sandbox/vm/vmtest"
)

func TestConformance(t *testing.T) {
	for _, arch := range []vm.Arch{vm.AMD64, vm.ARM64} {
		t.Run(string(arch), func(t *testing.T) {
			vmtest.Run(t, vmtest.Suite{Driver: &qemu.Driver{}, Arch: arch, HostFromGuest: "10.0.2.2"})
		})
	}
}
