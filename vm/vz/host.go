//go:build darwin || vzstandin

package vz

import (
	"fmt"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// checkHost returns an error with advice if this Mac cannot run guests of an
// architecture. vz reports a macOS that is too old.
func checkHost(arch vm.Arch) error {
	const op = "look for a driver"
	if arch != nativeArch() {
		return fault.Newf(fault.Unavailable, op, string(arch), "macOS only runs guests of its own architecture").
			Advise(fmt.Sprintf("Use a pack for %s.", nativeArch()))
	}
	if !virtualizes() {
		return fault.Newf(fault.Unavailable, op, "processor", "it has no virtualization (kern.hv_support is 0)").
			Advise(otherMac)
	}
	return nil
}

const otherMac = "Use a Mac from 2012 or later that is not a virtual machine."
