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
	p, err := findProgram(ctx, arch)
	return []vm.Finding{
		vm.NewFinding("qemu-system-"+guestMachine(arch), fmt.Sprintf("version %d.%d at %s", p.major, p.minor, p.path), err, vm.FindingMissing),
		vm.NewFinding("KVM", "works", tryKVM(arch), vm.FindingLimited),
		vm.NewFinding("shared memory", "sealed memory files work", tryMemory(), vm.FindingMissing),
		vm.CheckFiles(wantFiles, fmt.Sprintf("echo '* hard nofile %d' | sudo tee /etc/security/limits.d/osaurus.conf (then log in again)", wantFiles)),
	}
}

// tryMemory creates a sealed memfd, which guest memory needs.
func tryMemory() error {
	fd, err := unix.MemfdCreate("osaurus-check", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
		unix.Close(fd)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "memfd_create", "", err).Advise("Allow memfd_create and its seals in the container or policy that this program runs in.")
	}
	return nil
}
