//go:build linux

package seccomp

import "golang.org/x/sys/unix"

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

// NetlinkBut is to speak by netlink to any but these parts of the kernel. It fails as with
// a kernel that has none of them: programs then do without.
func NetlinkBut(protocols ...uint32) Filter {
	return Filter{Conditions: []Condition{
		{Call: Call{"socket", 41, 198, unix.EPROTONOSUPPORT}, Of: unix.AF_NETLINK, Argument: 2, Values: protocols, Others: true},
	}}
}

// Metadata is to change modes, owners, times and attributes of files, as far as Base
// leaves that.
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
