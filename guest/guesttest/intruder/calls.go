//go:build linux

package main

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls makes each system call once, with harmful arguments.
func calls([]string) {
	socket := func(family, kind int) error {
		_, err := unix.Socket(family, kind, 0)
		return err
	}
	say("socket-vsock", socket(unix.AF_VSOCK, unix.SOCK_STREAM))
	say("socket-vsock-high", sys(unix.SYS_SOCKET, 1<<32|unix.AF_VSOCK, unix.SOCK_STREAM, 0)) // the kernel looks at the lower half
	say("socket-packet", socket(unix.AF_PACKET, unix.SOCK_RAW))
	say("socket-alg", socket(unix.AF_ALG, unix.SOCK_SEQPACKET))
	_, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
	say("socket-raw", err)
	for name, protocol := range map[string]int{"route": unix.NETLINK_ROUTE, "sockets": unix.NETLINK_SOCK_DIAG, "user": unix.NETLINK_USERSOCK, "generic": unix.NETLINK_GENERIC} {
		_, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, protocol)
		say("socket-netlink-"+name, err)
	}
	say("socket-inet", socket(unix.AF_INET, unix.SOCK_STREAM))

	say("mount", unix.Mount("none", "/tmp", "tmpfs", 0, ""))
	say("remount", unix.Mount("", "/proc/sys", "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	say("umount", unix.Unmount("/proc/sys", unix.MNT_DETACH))
	say("move_mount", unix.MoveMount(unix.AT_FDCWD, "/tmp", unix.AT_FDCWD, "/run", 0))
	_, err = unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE)
	say("open_tree", err)
	_, err = unix.Fsopen("proc", 0)
	say("fsopen", err)
	say("mount_setattr", unix.MountSetattr(unix.AT_FDCWD, "/proc/sys", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}))
	say("pivot_root", unix.PivotRoot(".", "."))
	say("chroot", unix.Chroot("/tmp"))
	for name, flag := range map[string]int{"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET, "time": unix.CLONE_NEWTIME} {
		say("unshare-"+name, unix.Unshare(flag))
	}
	say("clone-user", fork(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD)))
	three := [8]uint64{unix.CLONE_NEWUSER, 0, 0, 0, uint64(unix.SIGCHLD)}
	say("clone3-user", fork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&three)), unsafe.Sizeof(three)))
	three[0] = unix.CLONE_NEWNS
	say("clone3-mount", fork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&three)), unsafe.Sizeof(three)))
	self, _ := unix.Open("/proc/self/ns/uts", unix.O_RDONLY, 0)
	say("setns", unix.Setns(self, 0))

	say("ptrace-init", unix.PtraceAttach(1))
	first, err := unix.PidfdOpen(1, 0)
	say("pidfd_getfd", sys(unix.SYS_PIDFD_GETFD, uintptr(first), 0, 0))
	_ = err
	say("kill-init", unix.Kill(1, unix.SIGKILL))
	buf := make([]byte, 8)
	local := []unix.Iovec{{Base: &buf[0], Len: 8}}
	_, err = unix.ProcessVMReadv(1, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
	say("process_vm_readv-init", err)

	say("bpf", sys(unix.SYS_BPF, 0, 0, 0))
	say("io_uring_setup", sys(unix.SYS_IO_URING_SETUP, 8, uintptr(unsafe.Pointer(&three))))
	say("userfaultfd", sys(unix.SYS_USERFAULTFD, 1))
	say("perf_event_open", sys(unix.SYS_PERF_EVENT_OPEN, 0, 0, ^uintptr(0), ^uintptr(0), 0))
	say("keyctl", sys(unix.SYS_KEYCTL, 0, ^uintptr(2), 1))
	say("add_key", sys(unix.SYS_ADD_KEY, text("user"), text("x"), text("y"), 1, ^uintptr(2)))
	say("init_module", sys(unix.SYS_INIT_MODULE, text("x"), 1, text("")))
	say("finit_module", sys(unix.SYS_FINIT_MODULE, uintptr(self), text(""), 0))
	say("delete_module", sys(unix.SYS_DELETE_MODULE, text("virtiofs"), 0))
	say("kexec_load", sys(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0))
	say("reboot", unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF))
	say("swapon", sys(unix.SYS_SWAPON, text("/tmp/x"), 0))
	say("quotactl", sys(unix.SYS_QUOTACTL, 0, text("/dev/vdb"), 0, 0))
	say("quotactl_fd", sys(unix.SYS_QUOTACTL_FD, 0, 0, 0, 0))
	say("acct", sys(unix.SYS_ACCT, text("/tmp/acct")))
	say("syslog", sys(unix.SYS_SYSLOG, 3, text("x"), 1))
	say("open_by_handle_at", sys(unix.SYS_OPEN_BY_HANDLE_AT, uintptr(self), uintptr(unsafe.Pointer(&three)), 0))
	say("fanotify_init", sys(unix.SYS_FANOTIFY_INIT, 0, 0))
	say("clock_settime", sys(unix.SYS_CLOCK_SETTIME, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&unix.Timespec{}))))
	say("settimeofday", sys(unix.SYS_SETTIMEOFDAY, uintptr(unsafe.Pointer(&unix.Timeval{})), 0))
	_, err = unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_FREQUENCY, Freq: 1})
	say("adjtimex", err)
	say("sethostname", unix.Sethostname([]byte("mine")))
	say("setpriority", unix.Setpriority(unix.PRIO_PROCESS, 0, -20))

	home, _ := unix.Open(".", unix.O_RDONLY, 0)
	attributes := [28]byte{}
	say("FS_IOC_FSSETXATTR", sys(unix.SYS_IOCTL, uintptr(home), 0x401c5820, uintptr(unsafe.Pointer(&attributes))))
	say("FS_IOC_SETFLAGS", sys(unix.SYS_IOCTL, uintptr(home), 0x40086602, uintptr(unsafe.Pointer(&attributes))))
	say("file_setattr", sys(unix.SYS_FILE_SETATTR, uintptr(home), text("."), uintptr(unsafe.Pointer(&attributes)), 24, 0))
	say("TIOCSTI", sys(unix.SYS_IOCTL, 0, unix.TIOCSTI, text("x")))

	say("mknod-disk", unix.Mknod("/tmp/disk", unix.S_IFBLK|0o666, int(unix.Mkdev(254, 0))))
	say("mknod-mem", unix.Mknod("/tmp/mem", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 1))))
	say("setuid-root", sys(unix.SYS_SETUID, 0))
	say("setgid-root", sys(unix.SYS_SETGID, 0))
	say("capability", unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_NET_ADMIN, 0, 0))
	for _, path := range []string{"/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/dev/kmsg", "/dev/mem", "/dev/vda", "/dev/vdb", "/dev/vsock", "/sys/fs/cgroup/cgroup.procs"} {
		fd, err := unix.Open(path, unix.O_WRONLY, 0)
		_ = unix.Close(fd)
		say("open-"+path, err)
	}
}

// x32 makes a system call of amd64's x32 ABI, which must end the process.
func x32([]string) {
	unix.RawSyscall(0x40000000|unix.SYS_GETPID, 0, 0, 0)
	fmt.Println("it lives")
}

// fork makes the raw system call. If it succeeds, the child ends at once.
func fork(number uintptr, args ...uintptr) error {
	var a [2]uintptr
	copy(a[:], args)
	pid, _, e := unix.RawSyscall6(number, a[0], a[1], 0, 0, 0, 0)
	if e != 0 {
		return e
	}
	if pid == 0 {
		for {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	return nil
}

func sys(number uintptr, a ...uintptr) error {
	var args [6]uintptr
	copy(args[:], a)
	if _, _, e := unix.Syscall6(number, args[0], args[1], args[2], args[3], args[4], args[5]); e != 0 {
		return e
	}
	return nil
}

func text(s string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(s + "\x00"))) }
