//go:build linux

package seccomp

import (
	"slices"

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
		Calls: slices.Concat(
			// Mounts and namespaces.
			refuse(unix.EPERM, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN,
				unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_PIVOT_ROOT, unix.SYS_SETNS),
			// The kernel and the machine.
			refuse(unix.EPERM, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
				unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_ACCT, unix.SYS_SYSLOG,
				unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP),
			// Large surfaces.
			refuse(unix.ENOSYS, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER,
				unix.SYS_IO_URING_REGISTER, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_FANOTIFY_INIT),
			// Ways around walls. file_setattr does what FS_IOC_FSSETXATTR does, since Linux 6.17.
			refuse(unix.EPERM, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_FILE_SETATTR),
			legacyMachine(),
		),
		Conditions: []Condition{
			{Call: Call{unix.SYS_UNSHARE, unix.EPERM}, Bits: namespaces | unix.CLONE_NEWTIME},
			{Call: Call{unix.SYS_CLONE, unix.EPERM}, Bits: namespaces},
			// A file's flags and project would outlive its owner's rights. TIOCSTI types
			// into the terminals of others.
			{Call: Call{unix.SYS_IOCTL, unix.EPERM}, Argument: 1, Values: []uint32{fsSetXattr, fsSetFlags, unix.TIOCSTI}},
		},
	}
}

// Tracing refuses to read and change other processes.
func Tracing() Filter {
	return Filter{Calls: refuse(unix.EPERM, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV)}
}

// Nesting refuses clone3, whose flags a filter cannot see (libc falls back to
// clone), and chroot.
func Nesting() Filter {
	return Filter{Calls: []Call{{unix.SYS_CLONE3, unix.ENOSYS}, {unix.SYS_CHROOT, unix.EPERM}}}
}

// SocketsBut refuses sockets of all but these families. socketpair stays allowed.
func SocketsBut(families ...uint32) Filter {
	return Filter{Conditions: []Condition{
		{Call: Call{unix.SYS_SOCKET, unix.EAFNOSUPPORT}, Values: families, Others: true},
	}}
}

// NetlinkBut refuses netlink sockets of all but these protocols, as a kernel without
// them does, so that programs do without.
func NetlinkBut(protocols ...uint32) Filter {
	return Filter{Conditions: []Condition{
		{Call: Call{unix.SYS_SOCKET, unix.EPROTONOSUPPORT}, Of: unix.AF_NETLINK, Argument: 2, Values: protocols, Others: true},
	}}
}

// Metadata refuses to change modes, owners, times and attributes of files.
func Metadata() Filter {
	return Filter{Calls: refuse(unix.EROFS, append(legacyMetadata(), unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
		unix.SYS_UTIMENSAT, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
		unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT)...)}
}

func refuse(e unix.Errno, numbers ...uint32) (calls []Call) {
	for _, n := range numbers {
		calls = append(calls, Call{n, e})
	}
	return calls
}
