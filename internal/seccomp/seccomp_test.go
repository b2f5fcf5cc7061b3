//go:build linux

package seccomp

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// run runs the filter on a call, as the kernel would.
func run(t *testing.T, f Filter, arch, number uint32, arguments ...uint64) uint32 {
	t.Helper()
	machine, err := bpf.NewVM(f.program())
	if err != nil {
		t.Fatal(err)
	}
	// The machine reads big-endian packets. The halves of an argument are in the order
	// of little-endian processors.
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[fieldNumber:], number)
	binary.BigEndian.PutUint32(data[fieldArch:], arch)
	for i, v := range arguments {
		binary.BigEndian.PutUint32(data[fieldArguments+argumentBytes*i:], uint32(v))
		binary.BigEndian.PutUint32(data[fieldArguments+argumentBytes*i+4:], uint32(v>>32))
	}
	verdict, err := machine.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(verdict)
}

func TestProgram(t *testing.T) {
	f := Filter{
		Calls: []Call{{10, unix.EPERM}, {11, unix.ENOSYS}},
		Conditions: []Condition{
			{Call: Call{30, unix.EPERM}, Argument: 1, Bits: 6},
			{Call: Call{31, unix.EPERM}, Argument: 2, Values: []uint32{7, 9}},
			{Call: Call{31, unix.EROFS}, Argument: 0, Values: []uint32{1}},
			{Call: Call{32, unix.EAFNOSUPPORT}, Values: []uint32{1, 2}, Others: true},
			{Call: Call{34, unix.EPERM}, Of: 16, Argument: 2, Values: []uint32{0, 4}, Others: true},
			{Call: Call{33, unix.EPERM}, Others: true},
		},
	}
	fails := func(e unix.Errno) uint32 { return retErrno | uint32(e) }
	unknown := uint32(retAllow)
	if hasX32 {
		unknown = retKill
	}
	for _, c := range []struct {
		arch, number uint32
		arguments    []uint64
		want         uint32
	}{
		{auditArch, 10, nil, fails(unix.EPERM)},
		{auditArch, 11, nil, fails(unix.ENOSYS)},
		{auditArch, 20, nil, retAllow},
		{unix.AUDIT_ARCH_I386, 20, nil, retKill},
		{auditArch, x32 | 10, nil, unknown},
		{auditArch, x32, nil, unknown},
		{auditArch, 30, []uint64{6, 0}, retAllow},
		{auditArch, 30, []uint64{0, 2}, fails(unix.EPERM)},
		{auditArch, 30, []uint64{0, 4 | 8}, fails(unix.EPERM)},
		{auditArch, 31, []uint64{0, 0, 7}, fails(unix.EPERM)},
		{auditArch, 31, []uint64{0, 0, 1<<40 | 9}, fails(unix.EPERM)},
		{auditArch, 31, []uint64{0, 0, 8}, retAllow},
		{auditArch, 31, []uint64{1, 0, 8}, fails(unix.EROFS)},
		{auditArch, 32, []uint64{1}, retAllow},
		{auditArch, 32, []uint64{2}, retAllow},
		{auditArch, 32, []uint64{3}, fails(unix.EAFNOSUPPORT)},
		{auditArch, 33, []uint64{0}, fails(unix.EPERM)},
		{auditArch, 34, []uint64{0}, retAllow},
		{auditArch, 34, []uint64{16, 3, 4}, retAllow},
		{auditArch, 34, []uint64{16, 3, 2}, fails(unix.EPERM)},
		{auditArch, 34, []uint64{1<<32 | 16, 3, 1}, fails(unix.EPERM)},
		{auditArch, 34, []uint64{2, 3, 1}, retAllow},
	} {
		if got := run(t, f, c.arch, c.number, c.arguments...); got != c.want {
			t.Errorf("call %d of %#x with %v: %#x, want %#x", c.number, c.arch, c.arguments, got, c.want)
		}
	}
}

// TestInstall: the kernel accepts the filter and enforces it.
func TestInstall(t *testing.T) {
	errs := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		errs <- func() error {
			p, err := Base().Plus(SocketsBut(unix.AF_INET)).Compile()
			if err != nil {
				return err
			}
			if err := p.Install(false); err != nil {
				return err
			}
			if _, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); err != unix.EAFNOSUPPORT {
				return fmt.Errorf("socket(AF_UNIX) = %v", err)
			}
			if err := unix.Unshare(unix.CLONE_NEWUSER); err != unix.EPERM {
				return fmt.Errorf("unshare(CLONE_NEWUSER) = %v", err)
			}
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
			if err != nil {
				return fmt.Errorf("socket(AF_INET) = %w", err)
			}
			return unix.Close(fd)
		}()
	}()
	if err := <-errs; err != nil {
		t.Error(err)
	}
}
