//go:build linux

package room

import (
	"fmt"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/seccomp"
)

// refused is the seccomp filter of rooms, for agents and for a room's root. Namespaces, cgroups and
// the lack of capabilities bound what an agent may do. The filter takes away what those leave open,
// and parts of the kernel that have had many holes. Among sockets, only the usual families remain:
// the host answers on vsock, and packet sockets are for root. Netlink remains for addresses, routes
// and the list of sockets: messages of other families count as no room's memory.
//
// ptrace stays for debuggers: it reaches only the same user in the same room. clone3 stays because
// the guest's own fork needs it and a filter cannot see its flags. With it, new namespaces need a
// capability that rooms lack, or a user namespace, which the guest does not allow.
func refused() seccomp.Filter {
	return seccomp.Base().Plus(seccomp.SocketsBut(unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)).
		Plus(seccomp.NetlinkBut(unix.NETLINK_ROUTE, unix.NETLINK_SOCK_DIAG))
}

// rootCapabilities are all that the root of a room has: what installing packages takes.
const rootCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_KILL

// dropBounding drops all capabilities except some from the thread's bounding set.
func dropBounding(keep uint64) error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if keep&(1<<c) != 0 {
			continue
		}
		// EINVAL is a capability that is newer than the kernel.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	return nil
}

// keepOnly drops all of the thread's capabilities except some.
func keepOnly(keep uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{
		{Effective: uint32(keep), Permitted: uint32(keep)},
		{Effective: uint32(keep >> 32), Permitted: uint32(keep >> 32)},
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("give capabilities up: %w", err)
	}
	return nil
}

// raise makes capabilities effective again that the thread still may use.
func raise(with uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("ask for capabilities: %w", err)
	}
	data[0].Effective |= uint32(with)
	data[1].Effective |= uint32(with >> 32)
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("take capabilities up: %w", err)
	}
	return nil
}
