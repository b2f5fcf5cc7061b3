//go:build linux

package qemu

import (
	"os"
	"regexp"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// QEMU's ways to run the guest's instructions, as in vm.Capabilities.
const (
	KVM = "kvm" // hardware virtualization
	TCG = "tcg" // emulation: slow, but works everywhere
)

// kvmCreateVM is an ioctl request of /dev/kvm.
const kvmCreateVM = 0xae01

const turnOn = "Turn virtualization on in the firmware, or nested virtualization where this host is itself a virtual machine."

// tryKVM returns why KVM cannot be used for guests of an architecture.
func tryKVM(arch vm.Arch) error {
	slow := func(fix, format string, values ...any) error {
		return fault.Newf(fault.Unavailable, "", "", format+": machines run under TCG, which is slower", values...).Advise(fix)
	}
	if arch != vm.HostArch() {
		return slow("", "guests for %s are translated on a host of %s", arch, vm.HostArch())
	}
	// Some clouds offer a KVM device without hardware virtualization: it opens, but guests hang.
	if arch == vm.AMD64 {
		if info, err := os.ReadFile("/proc/cpuinfo"); err != nil || !virtualization.Match(info) {
			return slow(turnOn, "the processor shows no virtualization (no vmx or svm flag)")
		}
	}
	fd, err := unix.Open("/dev/kvm", unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.ENOENT:
		return slow("sudo modprobe -a kvm_intel kvm_amd; or else: "+turnOn, "there is no /dev/kvm")
	case unix.EACCES, unix.EPERM:
		return slow("sudo usermod -aG kvm $USER (then log in again)", "this user may not open /dev/kvm")
	default:
		return slow(turnOn, "/dev/kvm does not open: %w", err)
	}
	defer unix.Close(fd)
	machine, err := unix.IoctlRetInt(fd, kvmCreateVM)
	if err != nil {
		return slow(turnOn, "KVM makes no machine: %w", err)
	}
	unix.Close(machine)
	return nil
}

// virtualization matches the flag of Intel's or AMD's virtualization in /proc/cpuinfo.
var virtualization = regexp.MustCompile(`(?m)^flags\s*:.*\b(vmx|svm)\b`)
