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
)

// image is what a child becomes.
type image struct {
	path       string
	program    int // descriptor of what is run in place of the path, or none
	args, env  []string
	dir        string
	files      [3]uintptr
	tty        bool                // the first file becomes the controlling terminal
	user       *syscall.Credential // nil: as whom the thread runs
	namespaces uintptr
	group      int // descriptor of a cgroup's directory, or none
}

// none is no descriptor.
const none = -1

// cloneArgs is struct clone_args of the kernel.
type cloneArgs struct {
	flags, pidfd, _, _, exitSignal, _, _, _, _, _, cgroup uint64
}

// begin forks: the child goes on to become the image. syscall.ForkExec would stand
// still, with a lock on the whole runtime, until the child's execve is through: but
// the child is already its user's in its room, and who stops it there, or has it
// wait for its share of the processor, would stop this process. This child has this
// process's memory too, as copying its page tables costs more than all the rest; but
// nobody waits for it who does not want to.
//
// Until it first runs it has copies of all that this process has open, as a fork has, and where
// its group waits for its share of the processor it may have them for as long as execWithin: the
// end of another command's input, or of a connection, comes no sooner. Outputs do not wait for it
// (sandbox.Linger). No way without that is known which costs less than it mends. A table of files
// of the forking thread's own would lack those of the runtime's poller, which any thread may
// use. To enter the group only later takes a grace period of the kernel, longer than most
// programs take to start. One that runs ahead of all shares until then (SCHED_FIFO) never
// runs where the kernel divides that among groups and gives its own none.
func (i *image) begin() (*child, error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, err
	}
	c, err := i.compile(uintptr(pipe[1]))
	if err == nil {
		err = c.fork()
	}
	_ = unix.Close(pipe[1])
	if err != nil {
		_ = unix.Close(pipe[0])
		return nil, err
	}
	c.until = os.NewFile(uintptr(pipe[0]), "until execve")
	return c, nil
}

// started waits until a child has become its program, or has ended before, and fails with
// os.ErrDeadlineExceeded if that takes too long. One that failed is killed, and what it works on
// must be kept until it is gone: it may wait for a share.
func (c *child) started(within time.Duration) error {
	defer unix.Close(int(c.handle))
	defer c.until.Close()
	_ = c.until.SetReadDeadline(time.Now().Add(within))
	_, err := c.until.Read(make([]byte, 1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded): // whatever it has come to since
	case c.failed != 0:
		err = syscall.Errno(-c.failed)
	case errors.Is(err, io.EOF):
		return nil
	}
	_ = unix.PidfdSendSignal(int(c.handle), unix.SIGKILL, nil, 0)
	return err
}

// step is a system call: its number and arguments.
type step [7]uintptr

// child is what a child does until it is its program. In this process's memory, of
// which it changes nothing but failed, it can run nothing of Go, which would
// take it for the thread that it was forked from: it makes one system call after
// the other (run), and needs no stack.
type child struct {
	pid    int
	until  *os.File // ends with its execve, or with it
	clone  cloneArgs
	handle int32   // pidfd
	failed uintptr // -errno of the step that did
	steps  []step  // the last is execveat

	path, dir  *byte // what steps point to
	argv, envv []*byte
	signals    unix.Sigset_t // none is blocked
}

// compile makes a child of an image, which leaves a descriptor open until it is its program.
func (i *image) compile(until uintptr) (*child, error) {
	c := new(child)
	var errs [4]error
	c.path, errs[0] = syscall.BytePtrFromString(i.path)
	c.argv, errs[1] = syscall.SlicePtrFromStrings(i.args)
	c.envv, errs[2] = syscall.SlicePtrFromStrings(i.env)
	if i.dir != "" {
		c.dir, errs[3] = syscall.BytePtrFromString(i.dir)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, syscall.EINVAL // a zero byte
	}
	// Handlers of this process must not run in the child: cleared before it runs.
	c.clone = cloneArgs{flags: uint64(i.namespaces) | unix.CLONE_VM | unix.CLONE_CLEAR_SIGHAND | unix.CLONE_PIDFD, exitSignal: uint64(unix.SIGCHLD)}
	if i.group != none {
		c.clone.flags |= unix.CLONE_INTO_CGROUP
		c.clone.cgroup = uint64(i.group)
	}
	c.do(unix.SYS_SETSID)
	// What it holds of this process nobody else sees the end of: it lets go of that
	// before it is its user's, who may stop it.
	program := c.hold(i.files, until, i.program)
	if i.user != nil {
		c.do(unix.SYS_SETGROUPS, 0, 0)
		c.do(unix.SYS_SETGID, uintptr(i.user.Gid))
		c.do(unix.SYS_SETUID, uintptr(i.user.Uid))
	}
	if c.dir != nil {
		c.do(unix.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)))
	}
	if i.tty {
		c.do(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 1)
	}
	c.do(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&c.signals)), 0, signalsSize)
	from, how := unix.AT_FDCWD, 0
	if i.program != none {
		from, how = program, unix.AT_EMPTY_PATH
	}
	c.do(unix.SYS_EXECVEAT, uintptr(from), uintptr(unsafe.Pointer(c.path)), uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.envv[0])), uintptr(how))
	return c, nil
}

// hold has the child hold its three files as descriptors 0 to 2, what is open until it is
// its program, perhaps that program, whose descriptor it returns, and nothing else.
func (c *child) hold(files [3]uintptr, until uintptr, program int) int {
	held := append(files[:], until)
	if program != none {
		held = append(held, uintptr(program))
	}
	// All of them first go above where they end, so that none is trodden on.
	spare := max(slices.Max(held)+1, uintptr(len(held)))
	for n, fd := range held {
		c.do(unix.SYS_DUP3, fd, spare+uintptr(n), unix.O_CLOEXEC)
	}
	for n := range held {
		flags := unix.O_CLOEXEC
		if n < len(files) {
			flags = 0
		}
		c.do(unix.SYS_DUP3, spare+uintptr(n), uintptr(n), uintptr(flags))
	}
	c.do(unix.SYS_CLOSE_RANGE, uintptr(len(held)), math.MaxUint32, 0)
	return len(held) - 1
}

// signalsSize is the size of a set of signals, in the kernel's eyes.
const signalsSize = 8

func (c *child) do(call uintptr, arguments ...uintptr) {
	s := step{call}
	copy(s[1:], arguments)
	c.steps = append(c.steps, s)
}

// fork returns at once, whatever becomes of the child.
func (c *child) fork() error {
	// The child begins with no signal let in: its handlers are gone, and with
	// signals blocked none can end it before it has its own session.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before); err != nil {
		return err
	}
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	c.clone.pidfd = uint64(uintptr(unsafe.Pointer(&c.handle)))
	if c.pid = runBlocking(&c.clone, unsafe.Sizeof(c.clone), &c.steps[0], &c.failed); c.pid < 0 {
		return syscall.Errno(-c.pid)
	}
	return nil
}

// runBlocking is run as the runtime knows a system call: clone3 may wait for locks of the whole kernel, the
// cgroups' or the network namespaces', and a collection that begins meanwhile would otherwise wait for it,
// and all of this process with it. Between the two calls nothing of Go may run that needs the runtime
// (syscall.Syscall says what); the child runs nothing of it at all.
//
//go:nosplit
//go:norace
func runBlocking(args *cloneArgs, size uintptr, first *step, failed *uintptr) int {
	entersyscall()
	pid := run(args, size, first, failed)
	exitsyscall()
	return pid
}

// The runtime keeps these two for packages besides syscall, by these names and types.

//go:linkname entersyscall runtime.entersyscall
func entersyscall()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// run forks by clone3 and returns the child's pid, or -errno. The child takes its
// steps; when one fails, it says so and ends.
func run(args *cloneArgs, size uintptr, first *step, failed *uintptr) int
