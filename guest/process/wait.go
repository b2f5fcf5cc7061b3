//go:build linux

package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ending is how a child ended.
type ending struct {
	status syscall.WaitStatus
	early  bool // killed before it was its program
}

// wait reaps a child that has ended, or with -1 any; the pid is 0 if there is none.
func wait(pid int) (int, ending) {
	kind := unix.P_PID
	if pid == -1 {
		kind, pid = unix.P_ALL, 0
	}
	var i info
	for unix.Waitid(kind, pid, (*unix.Siginfo)(unsafe.Pointer(&i)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.EINTR {
	}
	if i.pid == 0 {
		return 0, ending{}
	}
	pid = int(i.pid)
	e := ending{early: i.code == killed && i.status == int32(unix.SIGKILL) && isFork(pid)}
	for {
		got, err := syscall.Wait4(pid, &e.status, syscall.WNOHANG, nil)
		if err != syscall.EINTR {
			return got, e
		}
	}
}

// info is siginfo_t of the kernel, as it is filled for a child on 64 bits.
type info struct {
	_, _, code, _, pid, _, status int32
	_                             [25]int32
}

var _ [unsafe.Sizeof(unix.Siginfo{})]byte = [unsafe.Sizeof(info{})]byte{}

// killed is the code of what a signal has ended (CLD_KILLED).
const killed = 2

// isFork reports whether a process has not been reaped and has run no program since it was forked.
func isFork(pid int) bool {
	const flags, forkNoExec = 6, 0x40 // what proc(5) counts from 3; PF_FORKNOEXEC
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	stat := string(b)
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) <= flags {
		return false
	}
	set, _ := strconv.ParseUint(f[flags], 10, 64)
	return set&forkNoExec != 0
}
