//go:build linux

package qemu

import (
	"fmt"
	"os"
	"regexp"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
)

// QEMU's ways to run the guest's instructions, as in vm.Capabilities.
const (
	KVM = "kvm" // hardware virtualization
	TCG = "tcg" // emulation: slow, but works everywhere
)

// ioctl requests of /dev/kvm, and its only API version.
const (
	kvmGetAPIVersion = 0xae00
	kvmCreateVM      = 0xae01
	kvmAPIVersion    = 12
)

// trouble is the reason why KVM cannot be used, and the fix if there is one.
type trouble struct{ reason, fix string }

const turnOn = "Turn virtualization on in the firmware, or nested virtualization where this host is itself a virtual machine."

func kvmTrouble(arch vm.Arch) trouble {
	if arch != vm.HostArch() {
		return trouble{reason: fmt.Sprintf("guests for %s are translated on a host of %s", arch, vm.HostArch())}
	}
	// Some clouds offer a KVM device without hardware virtualization: it opens, but guests hang.
	if arch == vm.AMD64 {
		if info, err := os.ReadFile("/proc/cpuinfo"); err != nil || !virtualization.Match(info) {
			return trouble{"the processor shows no virtualization (no vmx or svm flag)", turnOn}
		}
	}
	fd, err := unix.Open("/dev/kvm", unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.ENOENT:
		return trouble{"there is no /dev/kvm", "sudo modprobe -a kvm_intel kvm_amd; or else: " + turnOn}
	case unix.EACCES, unix.EPERM:
		return trouble{"this user may not open /dev/kvm", "sudo usermod -aG kvm $USER (then log in again)"}
	default:
		return trouble{fmt.Sprintf("/dev/kvm does not open: %v", err), turnOn}
	}
	defer unix.Close(fd)
	if version, err := unix.IoctlRetInt(fd, kvmGetAPIVersion); err != nil || version != kvmAPIVersion {
		return trouble{fmt.Sprintf("/dev/kvm does not answer as KVM (version %d, error %v)", version, err), turnOn}
	}
	machine, err := unix.IoctlRetInt(fd, kvmCreateVM)
	if err != nil {
		return trouble{fmt.Sprintf("KVM makes no machine: %v", err), turnOn}
	}
	unix.Close(machine)
	return trouble{}
}

// virtualization matches the flag of Intel's or AMD's virtualization in /proc/cpuinfo.
var virtualization = regexp.MustCompile(`(?m)^flags\s*:.*\b(vmx|svm)\b`)
