//go:build linux

package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
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

// execWithin is how long a child may take to become its program: one in a room with
// a hundredth of a processor does, and one that was stopped before does not
// hold its copy of this process for long.
const execWithin = 30 * time.Second

// cloneArgs is struct clone_args of the kernel.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// start forks and waits until the child has become the image. syscall.ForkExec would
// share this process's memory with the child and stand still, with a lock on
// the whole runtime, until its execve is through: but the child is already its
// user's in its room, and who stops it there, or has it wait for its share of the
// processor, would stop this process. This child is a copy, and only the
// calling thread waits for it.
func (i *image) start() (pid int, err error) {
	child, err := i.compile()
	if err != nil {
		return 0, err
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, err
	}
	defer unix.Close(pipe[0])
	child.pipe = uintptr(pipe[1])

	syscall.ForkLock.Lock()
	n, errno := child.fork()
	runtimeAfterFork()
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(child)
	_ = unix.Close(pipe[1])
	if errno != 0 {
		return 0, errno
	}
	handle := int(child.handle)
	defer unix.Close(handle)
	if err := executed(pipe[0]); err != nil {
		// It may be stopped, or never come to its own end.
		_ = unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0)
		for {
			// The keeper may have been first.
			if _, err := syscall.Wait4(int(n), nil, 0, nil); err != syscall.EINTR {
				break
			}
		}
		return 0, err
	}
	return int(n), nil
}

// executed waits for a child's word: the pipe ends with its execve, or says what failed.
func executed(pipe int) error {
	end := time.Now().Add(execWithin)
	for {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(pipe), Events: unix.POLLIN}}, int(max(0, time.Until(end)).Milliseconds()))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case ready == 0:
			return fmt.Errorf("not after %v: %w", execWithin, unix.ETIMEDOUT)
		}
		break
	}
	var word [8]byte // a syscall.Errno
	switch n, err := unix.Read(pipe, word[:]); {
	case err != nil:
		return err
	case n == 0:
		return nil
	case n != len(word):
		return errors.New("the child said half a word")
	}
	return syscall.Errno(binary.NativeEndian.Uint64(word[:]))
}

// child is an image as system calls take it, all made before the fork.
type child struct {
	clone      cloneArgs
	handle     int32 // pidfd
	path, dir  *byte
	program    uintptr // what an empty path is, and a relative one begins at
	how        uintptr // flags of execveat
	argv, envv []*byte
	files      [3]uintptr
	spare      uintptr // the first descriptor above files
	tty        bool
	user       *syscall.Credential
	pipe       uintptr
}

func (i *image) compile() (*child, error) {
	c := &child{files: i.files, spare: max(i.files[0], i.files[1], i.files[2], 2) + 1, tty: i.tty, user: i.user}
	here := unix.AT_FDCWD
	c.program = uintptr(here)
	if i.program != none {
		c.program, c.how = uintptr(i.program), unix.AT_EMPTY_PATH
		c.spare = max(c.spare, c.program+1) // it must not be trodden on either
	}
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
	c.clone = cloneArgs{flags: uint64(i.namespaces) | unix.CLONE_PIDFD, exitSignal: uint64(unix.SIGCHLD)}
	if i.group != none {
		c.clone.flags |= unix.CLONE_INTO_CGROUP
		c.clone.cgroup = uint64(i.group)
	}
	return c, nil
}

// fork returns in this process alone; runtimeAfterFork is due then. In the child
// no other thread lives, who may have held any lock: it calls the kernel and
// nothing of Go, whose stack may not grow either.
//
//go:noinline
//go:norace
func (c *child) fork() (pid uintptr, errno syscall.Errno) {
	var i uintptr
	c.clone.pidfd = uint64(uintptr(unsafe.Pointer(&c.handle))) // no earlier: it could move
	runtimeBeforeFork()
	pid, _, errno = syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&c.clone)), unsafe.Sizeof(c.clone), 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	runtimeAfterForkInChild() // gives signals back
	if _, _, errno = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); errno != 0 {
		goto failed
	}
	if c.user != nil {
		if _, _, errno = syscall.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
			goto failed
		}
		if _, _, errno = syscall.RawSyscall(unix.SYS_SETGID, uintptr(c.user.Gid), 0, 0); errno != 0 {
			goto failed
		}
		if _, _, errno = syscall.RawSyscall(unix.SYS_SETUID, uintptr(c.user.Uid), 0, 0); errno != 0 {
			goto failed
		}
	}
	if c.dir != nil {
		if _, _, errno = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)), 0, 0); errno != 0 {
			goto failed
		}
	}
	// All of them first go above where they end, so that none is trodden on.
	if _, _, errno = syscall.RawSyscall(unix.SYS_DUP3, c.pipe, c.spare+3, unix.O_CLOEXEC); errno != 0 && c.pipe != c.spare+3 {
		goto failed
	}
	c.pipe = c.spare + 3
	for i = 0; i < 3; i++ {
		if _, _, errno = syscall.RawSyscall(unix.SYS_DUP3, c.files[i], c.spare+i, unix.O_CLOEXEC); errno != 0 {
			goto failed
		}
	}
	for i = 0; i < 3; i++ {
		if _, _, errno = syscall.RawSyscall(unix.SYS_DUP3, c.spare+i, i, 0); errno != 0 {
			goto failed
		}
	}
	if c.tty {
		if _, _, errno = syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 1); errno != 0 {
			goto failed
		}
	}
	_, _, errno = syscall.RawSyscall6(unix.SYS_EXECVEAT, c.program, uintptr(unsafe.Pointer(c.path)), uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.envv[0])), c.how, 0)
failed:
	syscall.RawSyscall(unix.SYS_WRITE, c.pipe, uintptr(unsafe.Pointer(&errno)), unsafe.Sizeof(errno))
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 253, 0, 0)
	}
}

// What the runtime has for who forks: it keeps signals from the child until it is
// itself, and has it die rather than grow a stack.

//go:linkname runtimeBeforeFork syscall.runtime_BeforeFork
func runtimeBeforeFork()

//go:linkname runtimeAfterFork syscall.runtime_AfterFork
func runtimeAfterFork()

//go:linkname runtimeAfterForkInChild syscall.runtime_AfterForkInChild
func runtimeAfterForkInChild()
