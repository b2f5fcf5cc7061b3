//go:build linux

package seccomp

import (
	"golang.org/x/sys/unix"
)

// namespaces are the flags of new namespaces, as clone takes them. unshare has
// CLONE_NEWTIME besides.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// Requests of ioctl that golang.org/x/sys/unix does not have.
const (
	fsSetXattr = 0x401c5820 // FS_IOC_FSSETXATTR
	fsSetFlags = 0x40086602 // FS_IOC_SETFLAGS
)

// Base refuses calls that no command of an agent needs: changes of mounts, namespaces,
// the kernel or the machine, and large parts of the kernel with a bad record.
func Base() Filter {
	return Filter{
		Calls: []Call{
			// Mounts and namespaces.
			{"mount", 165, 40, unix.EPERM},
			{"umount2", 166, 39, unix.EPERM},
			{"open_tree", 428, 428, unix.EPERM},
			{"open_tree_attr", 467, 467, unix.EPERM},
			{"move_mount", 429, 429, unix.EPERM},
			{"fsopen", 430, 430, unix.EPERM},
			{"fsconfig", 431, 431, unix.EPERM},
			{"fsmount", 432, 432, unix.EPERM},
			{"fspick", 433, 433, unix.EPERM},
			{"mount_setattr", 442, 442, unix.EPERM},
			{"pivot_root", 155, 41, unix.EPERM},
			{"setns", 308, 268, unix.EPERM},
			// The kernel and the machine.
			{"init_module", 175, 105, unix.EPERM},
			{"finit_module", 313, 273, unix.EPERM},
			{"delete_module", 176, 106, unix.EPERM},
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
			{"iopl", 172, Absent, unix.EPERM},
			{"ioperm", 173, Absent, unix.EPERM},
			// Large surfaces.
			{"bpf", 321, 280, unix.ENOSYS},
			{"perf_event_open", 298, 241, unix.ENOSYS},
			{"userfaultfd", 323, 282, unix.ENOSYS},
			{"io_uring_setup", 425, 425, unix.ENOSYS},
			{"io_uring_enter", 426, 426, unix.ENOSYS},
			{"io_uring_register", 427, 427, unix.ENOSYS},
			{"add_key", 248, 217, unix.ENOSYS},
			{"request_key", 249, 218, unix.ENOSYS},
			{"keyctl", 250, 219, unix.ENOSYS},
			{"fanotify_init", 300, 262, unix.ENOSYS},
			{"modify_ldt", 154, Absent, unix.ENOSYS},
			// Ways around walls.
			{"open_by_handle_at", 304, 265, unix.EPERM},
			{"pidfd_getfd", 438, 438, unix.EPERM},
			{"kcmp", 312, 272, unix.EPERM},
			{"file_setattr", 469, 469, unix.EPERM}, // what FS_IOC_FSSETXATTR does, since Linux 6.17
		},
		Conditions: []Condition{
			{Call: Call{"unshare", 272, 97, unix.EPERM}, Bits: namespaces | unix.CLONE_NEWTIME},
			{Call: Call{"clone", 56, 220, unix.EPERM}, Bits: namespaces},
			// A file's flags and project would outlive its owner's rights. TIOCSTI types
			// into the terminals of others.
			{Call: Call{"ioctl", 16, 29, unix.EPERM}, Argument: 1, Values: []uint32{fsSetXattr, fsSetFlags, unix.TIOCSTI}},
		},
	}
}

// Tracing refuses to read and change other processes.
func Tracing() Filter {
	return Filter{Calls: []Call{
		{"ptrace", 101, 117, unix.EPERM},
		{"process_vm_readv", 310, 270, unix.EPERM},
		{"process_vm_writev", 311, 271, unix.EPERM},
	}}
}

// Nesting refuses clone3, whose flags a filter cannot see (libc falls back to
// clone), and chroot.
func Nesting() Filter {
	return Filter{Calls: []Call{
		{"clone3", 435, 435, unix.ENOSYS},
		{"chroot", 161, 51, unix.EPERM},
	}}
}

// SocketsBut refuses sockets of all but these families. socketpair stays allowed.
func SocketsBut(families ...uint32) Filter {
	return Filter{Conditions: []Condition{
		{Call: Call{"socket", 41, 198, unix.EAFNOSUPPORT}, Values: families, Others: true},
	}}
}

// NetlinkBut refuses netlink sockets of all but these protocols, as a kernel without
// them does, so that programs do without.
func NetlinkBut(protocols ...uint32) Filter {
	return Filter{Conditions: []Condition{
		{Call: Call{"socket", 41, 198, unix.EPROTONOSUPPORT}, Of: unix.AF_NETLINK, Argument: 2, Values: protocols, Others: true},
	}}
}

// Metadata refuses to change modes, owners, times and attributes of files.
func Metadata() Filter {
	return Filter{Calls: []Call{
		{"chmod", 90, Absent, unix.EROFS},
		{"fchmod", 91, 52, unix.EROFS},
		{"fchmodat", 268, 53, unix.EROFS},
		{"fchmodat2", 452, 452, unix.EROFS},
		{"chown", 92, Absent, unix.EROFS},
		{"fchown", 93, 55, unix.EROFS},
		{"lchown", 94, Absent, unix.EROFS},
		{"fchownat", 260, 54, unix.EROFS},
		{"utime", 132, Absent, unix.EROFS},
		{"utimes", 235, Absent, unix.EROFS},
		{"futimesat", 261, Absent, unix.EROFS},
		{"utimensat", 280, 88, unix.EROFS},
		{"setxattr", 188, 5, unix.EROFS},
		{"lsetxattr", 189, 6, unix.EROFS},
		{"fsetxattr", 190, 7, unix.EROFS},
		{"setxattrat", 463, 463, unix.EROFS},
		{"removexattr", 197, 14, unix.EROFS},
		{"lremovexattr", 198, 15, unix.EROFS},
		{"fremovexattr", 199, 16, unix.EROFS},
		{"removexattrat", 466, 466, unix.EROFS},
	}}
}
