//go:build linux

package qemu

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// wantFiles is the recommended limit of open files: a guest that walks a big share makes this
// process hold thousands.
const wantFiles = 8192

// Check reports what this host has and lacks to run machines of an architecture, with a fix for
// each problem.
func Check(ctx context.Context, arch vm.Arch) []vm.Finding {
	return []vm.Finding{checkProgram(ctx, arch), checkAccelerator(arch), checkMemory(), checkFiles()}
}

func checkProgram(ctx context.Context, arch vm.Arch) vm.Finding {
	f := vm.Finding{What: "qemu-system-" + guestMachine(arch), Status: vm.FindingOK}
	p, err := findProgram(ctx, arch)
	if err != nil {
		f.Status, f.Detail, f.Fix = vm.FindingMissing, err.Error(), fault.AdviceOf(err)
		return f
	}
	f.Detail = fmt.Sprintf("version %d.%d at %s", p.major, p.minor, p.path)
	return f
}

func checkAccelerator(arch vm.Arch) vm.Finding {
	t := kvmTrouble(arch)
	if t.reason == "" {
		return vm.Finding{What: "KVM", Status: vm.FindingOK, Detail: "works"}
	}
	return vm.Finding{What: "KVM", Status: vm.FindingLimited, Detail: t.reason + ": machines run under TCG, which is slower", Fix: t.fix}
}

// checkMemory checks that a sealed memfd can be created, which guest memory needs.
func checkMemory() vm.Finding {
	f := vm.Finding{What: "shared memory", Status: vm.FindingOK, Detail: "sealed memory files work"}
	fd, err := unix.MemfdCreate("osaurus-check", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
		unix.Close(fd)
	}
	if err != nil {
		f.Status, f.Detail, f.Fix = vm.FindingMissing, fmt.Sprintf("memfd_create: %v", err), "Allow memfd_create and its seals in the container or policy that this program runs in."
	}
	return f
}

func checkFiles() vm.Finding {
	return vm.CheckFiles(wantFiles, fmt.Sprintf("echo '* hard nofile %d' | sudo tee /etc/security/limits.d/osaurus.conf (then log in again)", wantFiles))
}
