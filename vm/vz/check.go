//go:build darwin || vzstandin

package vz

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/Code-Hex/vz/v3"

	"osaurus-sandbox/vm"
)

// wantFiles is the recommended limit of open files: the framework holds one
// descriptor for every file that a guest has open in a share.
const wantFiles = 8192

// Check reports whether this Mac can run machines of an architecture, with a fix for
// each problem.
func Check(_ context.Context, arch vm.Arch) []vm.Finding {
	return []vm.Finding{
		checkVersion(arch, productVersion(), checkHost(arch)),
		vm.NewFinding("entitlement", entitlement, tryMachine(), vm.FindingMissing),
		vm.CheckFiles(wantFiles, fmt.Sprintf("ulimit -n %d, in the shell that starts it (macOS 13 and later refuse launchctl limit maxfiles)", wantFiles)),
		{What: "not enforced here", Status: vm.FindingLimited, Detail: strings.Join(capabilities.Gaps(), "; ")},
	}
}

// checkVersion reports whether this macOS can run guests of an architecture. refused is the
// result of checkHost.
func checkVersion(arch vm.Arch, version string, refused error) vm.Finding {
	f := vm.NewFinding("macOS", "version "+version, refused, vm.FindingMissing)
	var major, minor int
	_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor) // 26 has no minor version
	if f.Status == vm.FindingOK && arch == vm.AMD64 && major > 0 && (major < 15 || major == 15 && minor < 5) {
		f.Status, f.Fix = vm.FindingMissing, "Update macOS to 15.5 or later, or import a pack with an older kernel."
		f.Detail += " does not boot Linux 6.12 or newer on Intel Macs, and Alpine's kernel is newer"
	}
	return f
}

// tryMachine validates a small configuration, which fails in a program that is not
// signed with the entitlement.
func tryMachine() error {
	file, err := os.Executable() // any file will do
	var loader *vz.LinuxBootLoader
	if err == nil {
		loader, err = vz.NewLinuxBootLoader(file)
	}
	var hardware *vz.VirtualMachineConfiguration
	if err == nil {
		hardware, err = vz.NewVirtualMachineConfiguration(loader, 1, vz.VirtualMachineConfigurationMinimumAllowedMemorySize())
	}
	if err == nil {
		_, err = hardware.Validate()
	}
	if err != nil {
		return explain("try a machine", "", err)
	}
	return nil
}
