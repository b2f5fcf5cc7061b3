//go:build linux

package room

import (
	"fmt"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/seccomp"
)

// refused is the seccomp filter of rooms, for agents and for a room's root. It denies what
// namespaces, cgroups and missing capabilities do not, and parts of the kernel with a history of
// holes. Only the usual socket families are allowed: the host answers on vsock, and packet sockets
// are for root. Netlink is allowed for addresses, routes and socket lists only, because messages of
// its other families are not charged to the room's memory.
//
// ptrace stays for debuggers: it reaches only the same user in the same room. clone3 stays because
// the guest's own fork needs it and a filter cannot see its flags. With it, new namespaces need a
// capability that rooms lack, or a user namespace, which the guest does not allow.
func refused() seccomp.Filter {
	return seccomp.Base().Plus(seccomp.SocketsBut(unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)).
		Plus(seccomp.NetlinkBut(unix.NETLINK_ROUTE, unix.NETLINK_SOCK_DIAG))
}

// rootCapabilities are the capabilities of a room's root: those that installing packages needs.
const rootCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_KILL

// dropBounding drops all capabilities except keep from the thread's bounding set.
func dropBounding(keep uint64) error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if keep&(1<<c) != 0 {
			continue
		}
		// EINVAL: the kernel does not know this capability.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	return nil
}

// keepOnly drops all capabilities of the thread except keep.
func keepOnly(keep uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{
		{Effective: uint32(keep), Permitted: uint32(keep)},
		{Effective: uint32(keep >> 32), Permitted: uint32(keep >> 32)},
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// setEffective makes permitted capabilities of the thread effective, and others not.
func setEffective(with, without uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	data[0].Effective = (data[0].Effective | uint32(with)) &^ uint32(without)
	data[1].Effective = (data[1].Effective | uint32(with>>32)) &^ uint32(without>>32)
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("change capabilities: %w", err)
	}
	return nil
}
