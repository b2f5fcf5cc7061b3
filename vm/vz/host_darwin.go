package vz

import (
	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
)

func nativeArch() vm.Arch { return vm.HostArch() }

// productVersion returns the version of macOS, such as "15.1", or "".
func productVersion() string {
	version, _ := unix.Sysctl("kern.osproductversion")
	return version
}

func virtualizes() bool {
	n, err := unix.SysctlUint32("kern.hv_support")
	return err == nil && n != 0
}
