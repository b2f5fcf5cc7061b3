//go:build linux

package room

import (
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
