package vz

import (
	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
)

func nativeArch() vm.Arch { return vm.HostArch() }

func productVersion() (string, error) { return unix.Sysctl("kern.osproductversion") }

func virtualizes() bool {
	n, err := unix.SysctlUint32("kern.hv_support")
	return err == nil && n != 0
}
