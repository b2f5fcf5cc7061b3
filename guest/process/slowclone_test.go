//go:build linux

package process

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stillness is a place where clone3 waits, until nobody holds what Enter gives away: the listener
// of a filter that asks it first.
type stillness struct{ entered chan<- entrant }

type entrant struct {
	thread   int
	listener *os.File
}

func (p stillness) Enter() error {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE3, Jf: 1},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	fd, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&filter)))
	if e != 0 {
		return e
	}
	p.entered <- entrant{unix.Gettid(), os.NewFile(fd, "listener")}
	return nil
}
func (stillness) Credential() *syscall.Credential { return nil }
func (stillness) Cgroup() string                  { return "" }

// TestSlowClone: while the kernel takes its time to make a child, the rest of this process goes on.
func TestSlowClone(t *testing.T) {
	const most = 20 * time.Second
	m, err := NewManager(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	entered, started := make(chan entrant, 1), make(chan error, 1)
	go func() {
		_, err := m.Start(Spec{Args: []string{"/bin/true"}, Dir: "/", Place: stillness{entered}})
		started <- err
	}()
	var e entrant
	select {
	case e = <-entered:
	case err := <-started:
		t.Skipf("no listeners of filters here: %v", err)
	}
	// Another process holds it, and lets go also if this one does not go on.
	holder := exec.Command("sleep", fmt.Sprint(most.Seconds()))
	holder.ExtraFiles = []*os.File{e.listener}
	err = holder.Start()
	_ = e.listener.Close()
	if err != nil {
		t.Fatal(err)
	}
	in := fmt.Sprintf("%d ", unix.SYS_CLONE3)
	for end := time.Now().Add(most); ; time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", e.thread))
		if strings.HasPrefix(string(b), in) {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("it is not in clone3: %q, %v", b, err)
		}
	}
	runtime.GC()
	select {
	case err := <-started:
		t.Errorf("a collection waited for it: %v", err)
		started <- err
	default:
	}
	_ = holder.Process.Kill()
	_ = holder.Wait()
	if err := <-started; err == nil {
		t.Error("nobody let it, and yet it was made")
	}
}
