//go:build linux

package room

import (
	"golang.org/x/sys/unix"
)

// This file is the whole list of what the seccomp filter of rooms refuses, for
// agents and for a room's root alike. All else is allowed: what an agent may
// do is bounded by its namespaces, by having no capability and by its cgroup,
// and the filter takes away what those leave open or what has had many holes.
//
// ptrace stays: debuggers need it, and it reaches only what has the same user
// in the same room. clone3 stays too, because the guest's own fork into a cgroup needs
// it and the filter cannot see its flags: new namespaces by it need a capability
// that nobody in a room has, or a user namespace, of which the guest has none
// (user.max_user_namespaces is 0; a room is not made where that cannot be set).

// refusal is a system call that fails in rooms.
type refusal struct {
	name         string
	amd64, arm64 uint32 // its numbers, or absent
	errno        unix.Errno
}

// absent is the number of a call that an architecture does not have.
const absent = ^uint32(0)

// refused are the calls that fail whatever their arguments. ENOSYS where
// programs then do without, EPERM where they should say why.
var refused = [...]refusal{
	// Mounts and namespaces.
	{"mount", 165, 40, unix.EPERM},
	{"umount2", 166, 39, unix.EPERM},
	{"move_mount", 429, 429, unix.EPERM},
	{"fsopen", 430, 430, unix.EPERM},
	{"fsmount", 432, 432, unix.EPERM},
	{"fsconfig", 431, 431, unix.EPERM},
	{"fspick", 433, 433, unix.EPERM},
	{"open_tree", 428, 428, unix.EPERM},
	{"mount_setattr", 442, 442, unix.EPERM},
	{"pivot_root", 155, 41, unix.EPERM},
	{"setns", 308, 268, unix.EPERM},
	// The kernel and the machine.
	{"init_module", 175, 105, unix.EPERM},
	{"finit_module", 313, 273, unix.EPERM},
	{"delete_module", 176, 106, unix.EPERM},
	{"create_module", 174, absent, unix.ENOSYS},
	{"kexec_load", 246, 104, unix.EPERM},
	{"kexec_file_load", 320, 294, unix.EPERM},
	{"reboot", 169, 142, unix.EPERM},
	{"swapon", 167, 224, unix.EPERM},
	{"swapoff", 168, 225, unix.EPERM},
	{"quotactl", 179, 60, unix.EPERM},
	{"quotactl_fd", 443, 443, unix.EPERM},
	{"acct", 163, 89, unix.EPERM},
	{"syslog", 103, 116, unix.EPERM},
	{"settimeofday", 164, 170, unix.EPERM},
	{"clock_settime", 227, 112, unix.EPERM},
	{"sethostname", 170, 161, unix.EPERM},
	{"setdomainname", 171, 162, unix.EPERM},
	{"vhangup", 153, 58, unix.EPERM},
	// Large surfaces that agents need not have.
	{"bpf", 321, 280, unix.ENOSYS},
	{"perf_event_open", 298, 241, unix.ENOSYS},
	{"userfaultfd", 323, 282, unix.ENOSYS},
	{"io_uring_setup", 425, 425, unix.ENOSYS},
	{"io_uring_enter", 426, 426, unix.ENOSYS},
	{"io_uring_register", 427, 427, unix.ENOSYS},
	{"add_key", 248, 217, unix.ENOSYS},
	{"request_key", 249, 218, unix.ENOSYS},
	{"keyctl", 250, 219, unix.ENOSYS},
	// Ways around the walls.
	{"open_by_handle_at", 304, 265, unix.EPERM},
	{"fanotify_init", 300, 262, unix.ENOSYS},
	{"pidfd_getfd", 438, 438, unix.EPERM},
	{"kcmp", 312, 272, unix.EPERM},
	// What is old.
	{"lookup_dcookie", 212, 18, unix.ENOSYS},
	{"nfsservctl", 180, 42, unix.ENOSYS},
	{"iopl", 172, absent, unix.EPERM},
	{"ioperm", 173, absent, unix.EPERM},
	{"modify_ldt", 154, absent, unix.ENOSYS},
	{"uselib", 134, absent, unix.ENOSYS},
	{"ustat", 136, absent, unix.ENOSYS},
	{"sysfs", 139, absent, unix.ENOSYS},
	{"_sysctl", 156, absent, unix.ENOSYS},
	{"get_kernel_syms", 177, absent, unix.ENOSYS},
	{"query_module", 178, absent, unix.ENOSYS},
}

// condition is a system call that fails for some values of an argument.
type condition struct {
	refusal
	argument int
	// What fails: a value that has a bit of bits, that is one of values, or, with
	// others, that is none of values. Only the lower half counts, as in the kernel.
	bits   uint32
	values []uint32
	others bool
}

// namespaces are the flags of new namespaces.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// Requests of ioctl that golang.org/x/sys/unix does not have.
const (
	fsGetXattr = 0x801c581f // FS_IOC_FSGETXATTR
	fsSetXattr = 0x401c5820 // FS_IOC_FSSETXATTR
	fsSetFlags = 0x40086602 // FS_IOC_SETFLAGS
)

var conditions = [...]condition{
	// The host answers on vsock, packets and the like are for network tools of
	// root, and the rest is seldom looked after.
	{refusal{"socket", 41, 198, unix.EAFNOSUPPORT}, 0, 0, []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}, true},
	{refusal{"unshare", 272, 97, unix.EPERM}, 0, namespaces | unix.CLONE_NEWTIME, nil, false},
	{refusal{"clone", 56, 220, unix.EPERM}, 0, namespaces, nil, false},
	// The project of a file is what its room's quota counts it by, and a file
	// that cannot be changed or removed outlives its room. TIOCSTI types for others.
	{refusal{"ioctl", 16, 29, unix.EPERM}, 1, 0, []uint32{fsSetXattr, fsSetFlags, unix.TIOCSTI}, false},
}
