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
	return []vm.Finding{checkHost(arch), checkEntitlement(), checkFiles()}
}

func checkHost(arch vm.Arch) vm.Finding {
	f := vm.Finding{What: "macOS", Status: vm.FindingOK}
	r, err := findHost(arch)
	if err != nil {
		f.Status, f.Detail, f.Fix = vm.FindingMissing, err.Error(), fault.AdviceOf(err)
		return f
	}
	f.Detail = "version " + r.String()
	return f
}

// checkEntitlement validates a small configuration, which fails in a program that
// is not signed with the entitlement.
func checkEntitlement() vm.Finding {
	f := vm.Finding{What: "entitlement", Status: vm.FindingOK, Detail: entitlement}
	if err := tryMachine(); err != nil {
		f.Status, f.Detail, f.Fix = vm.FindingMissing, err.Error(), fault.AdviceOf(err)
	}
	return f
}

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

func checkFiles() vm.Finding {
	return vm.CheckFiles(wantFiles, fmt.Sprintf("sudo launchctl limit maxfiles %d unlimited (then log in again)", wantFiles))
}
