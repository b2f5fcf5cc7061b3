//go:build linux

// Command intruder tries from within a room what no room allows, and says what the kernel answered.
package main

import (
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) < 2 {
		os.Args = append(os.Args, "calls")
	}
	name, args := os.Args[1], os.Args[2:]
	tricks := map[string]func([]string){
		"calls": calls, "x32": x32, "listen": listen, "dial": dial, "setuid": setuid, "escape": escape,
		"hog-memory": hogMemory, "hog-forks": hogForks, "hog-files": hogFiles, "hog-descriptors": hogDescriptors, "hog-disk": hogDisk, "hog-cpu": hogCPU, "hog-connections": hogConnections,
		"shm-put": shmPut, "shm-get": shmGet, "peek": peek, "kernel": kernel, "watch": watch, "spawn": spawn, "stop": stop,
		"ask": ask, "hold": hold, "modes": modes,
	}
	trick, ok := tricks[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "intruder: no trick", name)
		os.Exit(2)
	}
	trick(args)
}

// say prints what came of something: ok, or the name of the error.
func say(what string, err error) {
	answer := "ok"
	if err != nil {
		answer = err.Error()
		if e, is := err.(syscall.Errno); is {
			answer = unix.ErrnoName(e)
		}
	}
	fmt.Printf("%s %s\n", what, answer)
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

// calls tries each system call once, with arguments that would do harm.
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

// fork is a raw one. Should it work, the child ends at once.
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

// x32 calls by a number of amd64's second set, which must end the process.
func x32([]string) {
	unix.RawSyscall(0x40000000|unix.SYS_GETPID, 0, 0, 0)
	fmt.Println("it lives")
}

// listen takes connections at an address until its input ends.
func listen(args []string) {
	l, err := net.Listen(args[0], args[1])
	say("listen", err)
	if err != nil {
		os.Exit(1)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, "hello")
			c.Close()
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// dial connects to an address and reads what comes.
func dial(args []string) {
	const patience = 3 * time.Second
	c, err := net.DialTimeout(args[0], args[1], patience)
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	b, _ := io.ReadAll(c)
	fmt.Printf("connected: %s\n", strings.TrimSpace(string(b)))
}

// hogConnections sends a packet to each of so many ports of an address, which makes each
// a connection.
func hogConnections(args []string) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	to := netip.MustParseAddr(args[0]).As4()
	many, _ := strconv.Atoi(args[1])
	for port := range many {
		// That some are refused is what they are sent for.
		_ = unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Port: 1024 + port, Addr: to})
	}
}

// setuid says as whom it runs.
func setuid([]string) { fmt.Println("uid", unix.Getuid(), "euid", unix.Geteuid()) }

// escape is the old way out of a chroot, for who may chroot.
func escape(args []string) {
	_ = os.Mkdir("/tmp/cell", 0o755)
	say("chroot", unix.Chroot("/tmp/cell"))
	for range 64 {
		_ = unix.Chdir("..")
	}
	_ = unix.Chroot(".")
	for _, path := range args {
		_, err := os.Stat(path)
		fmt.Println(path, err == nil)
	}
}

// peek looks for a file through what /proc shows of any process up to a pid.
func peek(args []string) {
	last, _ := strconv.Atoi(args[0])
	found := 0
	for pid := range last {
		base := "/proc/" + strconv.Itoa(pid)
		for _, p := range []string{base + "/root" + args[1], base + "/cwd/" + filepath.Base(args[1])} {
			if _, err := os.ReadFile(p); err == nil {
				found++
			}
		}
		if b, err := os.ReadFile(base + "/environ"); err == nil && strings.Contains(string(b), args[2]) {
			found++
		}
	}
	fmt.Println("found", found)
}

// kernel says what can be read of the files at the top of /proc, and what can be opened
// for writing of all in it but of processes.
func kernel([]string) {
	_ = filepath.WalkDir("/proc", func(path string, e fs.DirEntry, err error) error {
		top := filepath.Dir(path) == "/proc"
		if _, no := strconv.Atoi(filepath.Base(path)); no == nil && top {
			return fs.SkipDir
		}
		if err != nil || e.IsDir() || e.Type() == fs.ModeSymlink {
			return nil
		}
		if fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			_ = unix.Close(fd)
			fmt.Println("opened", path)
		}
		if !top {
			return nil
		}
		if fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
			if n, _ := unix.Read(fd, make([]byte, 1)); n > 0 {
				fmt.Println("read", path)
			}
			_ = unix.Close(fd)
		}
		return nil
	})
	fmt.Println("end")
}

// watch looks for a moment in which a process that is starting is still the guest's
// own program, and can be looked into.
func watch(args []string) {
	fmt.Println("watching")
	found, seen := 0, map[string]bool{}
	for end := time.Now().Add(seconds(args)); time.Now().Before(end); {
		dir, err := os.Open("/proc")
		if err != nil {
			panic(err)
		}
		names, _ := dir.Readdirnames(-1)
		dir.Close()
		for _, name := range names {
			if _, err := strconv.Atoi(name); err != nil || name == strconv.Itoa(os.Getpid()) {
				continue
			}
			seen[name] = true
			exe, err := os.Readlink("/proc/" + name + "/exe")
			if err == nil && (strings.Contains(exe, "guest") || strings.Contains(exe, "init")) {
				found++
			}
		}
	}
	fmt.Println("seen", len(seen) > 0, "found", found)
}

// stop stops all that it may for as many seconds, lets that lie for as many, and undoes
// it. What opens a file that is named waits, too.
func stop(args []string) {
	signal.Ignore(unix.SIGIO) // somebody waits
	for _, path := range args[1:] {
		fd, err := unix.Open(path, unix.O_RDONLY, 0)
		if err == nil {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
		}
		say("lease", err)
	}
	fmt.Println("stopping")
	for end := time.Now().Add(seconds(args)); time.Now().Before(end); {
		_ = unix.Kill(-1, unix.SIGSTOP)
	}
	time.Sleep(seconds(args))
	for range 10 {
		_ = unix.Kill(-1, unix.SIGCONT)
		time.Sleep(10 * time.Millisecond)
	}
}

// spawn says how many nanoseconds it takes to run a program, of each of some times.
func spawn(args []string) {
	times, _ := strconv.Atoi(args[0])
	for range times {
		began := time.Now()
		pid, err := syscall.ForkExec(args[1], args[1:], &syscall.ProcAttr{})
		if err != nil {
			panic(err)
		}
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
			panic(err)
		}
		fmt.Println(time.Since(began).Nanoseconds())
	}
}

const shmKey, shmSize = 4711, 4096

func shmPut([]string) {
	id, err := unix.SysvShmGet(shmKey, shmSize, unix.IPC_CREAT|0o666)
	if err == nil {
		b, _ := unix.SysvShmAttach(id, 0, 0)
		copy(b, "secret")
	}
	say("shm", err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func shmGet([]string) {
	_, err := unix.SysvShmGet(shmKey, shmSize, 0)
	say("shm", err)
}

func hogMemory([]string) {
	type page struct {
		last *page
		text [1 << 20]byte
	}
	for p := (*page)(nil); ; {
		p = &page{last: p}
		for i := 0; i < len(p.text); i += 4096 {
			p.text[i] = 1
		}
	}
}

// hogForks makes processes until it may make no more, and goes on trying.
func hogForks(args []string) {
	signal.Ignore(unix.SIGTERM)
	for end := time.Now().Add(seconds(args)); time.Now().Before(end); {
		if _, err := syscall.ForkExec("/proc/self/exe", []string{"intruder", "hog-forks", args[0]}, &syscall.ProcAttr{}); err != nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func hogFiles(args []string) {
	dir := args[0]
	for i := 0; ; i++ {
		f, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		f.Close()
	}
}

func hogDisk(args []string) {
	f, err := os.Create(args[0])
	b := make([]byte, 1<<20)
	for err == nil {
		_, err = f.Write(b)
	}
	fmt.Println(err)
	os.Exit(1)
}

// hogDescriptors opens sockets, in as many processes as it may have, and holds them
// for a while.
func hogDescriptors(args []string) {
	for {
		if _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
			continue
		}
		if _, err := syscall.ForkExec("/proc/self/exe", []string{"intruder", "hog-descriptors", args[0]}, &syscall.ProcAttr{}); err != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(seconds(args))
}

func hogCPU(args []string) {
	for range 32 {
		go func() {
			for {
				runtime.Gosched()
			}
		}()
	}
	time.Sleep(seconds(args))
}

func seconds(args []string) time.Duration {
	n, _ := strconv.Atoi(args[0])
	return time.Duration(n) * time.Second
}
