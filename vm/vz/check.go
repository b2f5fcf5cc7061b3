//go:build darwin || vzstandin

package vz

import (
	"context"
	"fmt"
	"os"

	"github.com/Code-Hex/vz/v3"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// wantFiles is the recommended limit of open files: the framework holds one
// descriptor for every file that a guest has open in a share.
const wantFiles = 8192

// Check reports whether this Mac can run machines of an architecture, with a fix for
// each problem.
func Check(_ context.Context, arch vm.Arch) []vm.Finding {
	return []vm.Finding{
		vm.NewFinding("macOS", "version "+productVersion(), checkHost(arch)),
		vm.NewFinding("entitlement", entitlement, tryMachine()),
		vm.CheckFiles(wantFiles, fmt.Sprintf("sudo launchctl limit maxfiles %d unlimited (then log in again)", wantFiles)),
	}
}

// tryMachine validates a small configuration, which fails in a program that is not
// signed with the entitlement.
func tryMachine() error {
	const op = "try a machine"
	self, err := os.Executable()
	if err != nil {
		return fault.New(fault.Execution, op, "", err)
	}
	loader, err := vz.NewLinuxBootLoader(self) // any file will do
	if err != nil {
		return explain(op, self, err)
	}
	hardware, err := vz.NewVirtualMachineConfiguration(loader, 1, vz.VirtualMachineConfigurationMinimumAllowedMemorySize())
	if err != nil {
		return explain(op, "", err)
	}
	if _, err := hardware.Validate(); err != nil {
		return explain(op, "", err)
	}
	return nil
}
