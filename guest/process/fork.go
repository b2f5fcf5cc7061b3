//go:build linux

package process

import (
	"errors"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// image describes the program that a child executes.
type image struct {
	path       string
	program    int // descriptor to run instead of path, or noFD
	args, env  []string
	dir        string
	files      [3]uintptr
	tty        bool                // the first file becomes the controlling terminal
	user       *syscall.Credential // nil for the user of the calling thread
	namespaces uintptr
	group      int // descriptor of a cgroup's directory, or noFD
}

// noFD marks an unset descriptor.
const noFD = -1

// cloneArgs is the kernel's struct clone_args.
type cloneArgs struct {
	flags, _, _, _, exitSignal, _, _, _, _, _, cgroup uint64
}

// start is the state of a child that has not executed its program yet. The child uses this memory
// until then, so a start must live as long as its child.
type start struct {
	pipe     *os.File // closed when the child executes its program or ends
	args     cloneArgs
	calls    []call
	pointers []any   // keeps the arguments of calls alive
	failed   uintptr // -errno of the call that failed
}

// fork starts a child that executes the image, and returns its pid without waiting for it.
//
// syscall.ForkExec would block a thread, and with it the garbage collector, until execve succeeds.
// An agent could delay that by stopping the child. A plain fork copies the page tables and takes
// twice as long. So the child shares this process's memory and the parent does not wait for it.
func (i *image) fork() (pid int, s *start, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return 0, nil, err
	}
	defer unix.Close(ends[1])
	// Clearing the handlers keeps this process's signals from running Go code in the child.
	s = &start{args: cloneArgs{flags: uint64(i.namespaces) | unix.CLONE_VM | unix.CLONE_CLEAR_SIGHAND, exitSignal: uint64(unix.SIGCHLD)}}
	if i.group != noFD {
		s.args.flags |= unix.CLONE_INTO_CGROUP
		s.args.cgroup = uint64(i.group)
	}
	if err = s.prepare(i, uintptr(ends[1])); err == nil {
		pid, err = s.clone()
	}
	if err != nil {
		_ = unix.Close(ends[0])
		return 0, nil, err
	}
	s.pipe = os.NewFile(uintptr(ends[0]), "execve")
	return pid, s, nil
}

// await waits until the child has executed its program or ended. It returns the child's error, or
// os.ErrDeadlineExceeded, after which the child may still use the start.
func (s *start) await(within time.Duration) error {
	defer s.pipe.Close()
	_ = s.pipe.SetReadDeadline(time.Now().Add(within))
	_, err := s.pipe.Read(make([]byte, 1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case s.failed != 0:
		return syscall.Errno(-s.failed)
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// call is the number and arguments of a system call.
type call [7]uintptr

// prepare lists the system calls that the child makes to execute the image. The child runs them
// without a stack, since it cannot run Go code in the memory of a running Go program.
func (s *start) prepare(i *image, pipe uintptr) error {
	path, err1 := syscall.BytePtrFromString(i.path)
	argv, err2 := syscall.SlicePtrFromStrings(i.args)
	envv, err3 := syscall.SlicePtrFromStrings(i.env)
	dir, err4 := syscall.BytePtrFromString(i.dir)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return fault.Newf(fault.InvalidArgs, "", "", "an argument or variable holds a NUL byte")
	}
	add := func(number uintptr, arguments ...uintptr) {
		c := call{number}
		copy(c[1:], arguments)
		s.calls = append(s.calls, c)
	}
	add(unix.SYS_SETSID)
	held := append(i.files[:], pipe)
	from, how := unix.AT_FDCWD, 0
	if i.program != noFD {
		from, how = len(held), unix.AT_EMPTY_PATH
		held = append(held, uintptr(i.program))
	}
	// First duplicate all descriptors above their final numbers, so that none overwrites another.
	spare := max(slices.Max(held)+1, uintptr(len(held)))
	for n, fd := range held {
		add(unix.SYS_DUP3, fd, spare+uintptr(n), unix.O_CLOEXEC)
	}
	for n := range held {
		flags := 0
		if n >= len(i.files) {
			flags = unix.O_CLOEXEC
		}
		add(unix.SYS_DUP3, spare+uintptr(n), uintptr(n), uintptr(flags))
	}
	// Close before the change of user: the agent could keep these open by stopping the child.
	add(unix.SYS_CLOSE_RANGE, uintptr(len(held)), math.MaxUint32, 0)
	if i.user != nil {
		add(unix.SYS_SETGROUPS, 0, 0)
		add(unix.SYS_SETGID, uintptr(i.user.Gid))
		add(unix.SYS_SETUID, uintptr(i.user.Uid))
	}
	if i.dir != "" {
		add(unix.SYS_CHDIR, uintptr(unsafe.Pointer(dir)))
	}
	if i.tty {
		add(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 1)
	}
	none := new(unix.Sigset_t)
	add(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(none)), 0, signalsSize)
	add(unix.SYS_EXECVEAT, uintptr(from), uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envv[0])), uintptr(how))
	s.pointers = []any{path, dir, argv, envv, none}
	return nil
}

// signalsSize is the size of the kernel's sigset_t.
const signalsSize = 8

// clone forks with all signals blocked, so that none ends the child before it has a session.
func (s *start) clone() (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before); err != nil {
		return 0, err
	}
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	pid := runBlocking(&s.args, unsafe.Sizeof(s.args), &s.calls[0], &s.failed)
	if pid < 0 {
		return 0, syscall.Errno(-pid)
	}
	return pid, nil
}

// runBlocking tells the runtime that run is a blocking system call, so that the garbage collector
// does not wait while clone3 waits for kernel locks.
//
//go:nosplit
//go:norace
func runBlocking(args *cloneArgs, size uintptr, first *call, failed *uintptr) int {
	entersyscall()
	pid := run(args, size, first, failed)
	exitsyscall()
	return pid
}

// The runtime keeps these two linkable by other packages.

//go:linkname entersyscall runtime.entersyscall
func entersyscall()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// run calls clone3 and returns the child's pid, or -errno. The child makes the calls, ending with
// execveat, and exits if one fails.
func run(args *cloneArgs, size uintptr, first *call, failed *uintptr) int
