//go:build linux

package room

import (
	"fmt"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/seccomp"
)

// refused is what the seccomp filter of rooms refuses, for agents and for a
// room's root alike. All else is allowed: what an agent may do is bounded by its
// namespaces, by having no capability and by its cgroup, and the filter takes away
// what those leave open or what has had many holes. Of sockets only the usual
// remain: the host answers on vsock, packets and the like are for network tools
// of root, and the rest is seldom looked after. Of netlink there are addresses and
// routes, which all programs ask for that look up a name, and the sockets that ss lists: what
// the kernel keeps for whoever does not read it counts as no room's memory, and elsewhere
// others may send it.
//
// ptrace stays: debuggers need it, and it reaches only what has the same user
// in the same room. clone3 stays too, because the guest's own fork into a cgroup needs
// it and the filter cannot see its flags: new namespaces by it need a capability
// that nobody in a room has, or a user namespace, of which the guest has none
// (user.max_user_namespaces is 0; a room is not made where that cannot be set).
func refused() seccomp.Filter {
	return seccomp.Base().Plus(seccomp.SocketsBut(unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)).
		Plus(seccomp.NetlinkBut(unix.NETLINK_ROUTE, unix.NETLINK_SOCK_DIAG))
}

// rootCapabilities are what installing packages takes, and all that the root
// of a room has.
const rootCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_KILL

// dropBounding takes all capabilities but some out of the thread's bounding set.
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

// keepOnly leaves the thread only some of the capabilities that it has.
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
