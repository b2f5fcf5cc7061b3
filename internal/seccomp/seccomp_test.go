//go:build linux

package seccomp

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// run runs the filter on a call, as the kernel would.
func run(t *testing.T, f Filter, goarch string, arch, number uint32, arguments ...uint64) uint32 {
	t.Helper()
	a, err := architectureOf(goarch)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := bpf.NewVM(f.program(a))
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
		Calls: []Call{{"both", 10, 20, unix.EPERM}, {"old", 11, Absent, unix.ENOSYS}},
		Conditions: []Condition{
			{Call: Call{"bits", 30, 40, unix.EPERM}, Argument: 1, Bits: 6},
			{Call: Call{"values", 31, 41, unix.EPERM}, Argument: 2, Values: []uint32{7, 9}},
			{Call: Call{"values", 31, 41, unix.EROFS}, Argument: 0, Values: []uint32{1}},
			{Call: Call{"others", 32, 42, unix.EAFNOSUPPORT}, Values: []uint32{1, 2}, Others: true},
			{Call: Call{"of", 34, 44, unix.EPERM}, Of: 16, Argument: 2, Values: []uint32{0, 4}, Others: true},
			{Call: Call{"all", 33, 43, unix.EPERM}, Others: true},
		},
	}
	const amd64, arm64 = unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_AARCH64
	fails := func(e unix.Errno) uint32 { return retErrno | uint32(e) }
	for _, c := range []struct {
		goarch       string
		arch, number uint32
		arguments    []uint64
		want         uint32
	}{
		{"amd64", amd64, 10, nil, fails(unix.EPERM)},
		{"amd64", amd64, 11, nil, fails(unix.ENOSYS)},
		{"amd64", amd64, 20, nil, retAllow},
		{"amd64", arm64, 20, nil, retKill},
		{"amd64", amd64, x32 | 10, nil, retKill},
		{"amd64", amd64, x32, nil, retKill},
		{"arm64", arm64, 20, nil, fails(unix.EPERM)},
		{"arm64", arm64, 11, nil, retAllow},
		{"arm64", arm64, Absent, nil, retAllow},
		{"arm64", amd64, 10, nil, retKill},
		{"amd64", amd64, 30, []uint64{6, 0}, retAllow},
		{"amd64", amd64, 30, []uint64{0, 2}, fails(unix.EPERM)},
		{"amd64", amd64, 30, []uint64{0, 4 | 8}, fails(unix.EPERM)},
		{"amd64", amd64, 31, []uint64{0, 0, 7}, fails(unix.EPERM)},
		{"amd64", amd64, 31, []uint64{0, 0, 1<<40 | 9}, fails(unix.EPERM)},
		{"amd64", amd64, 31, []uint64{0, 0, 8}, retAllow},
		{"amd64", amd64, 31, []uint64{1, 0, 8}, fails(unix.EROFS)},
		{"arm64", arm64, 42, []uint64{1}, retAllow},
		{"arm64", arm64, 42, []uint64{2}, retAllow},
		{"arm64", arm64, 42, []uint64{3}, fails(unix.EAFNOSUPPORT)},
		{"arm64", arm64, 43, []uint64{0}, fails(unix.EPERM)},
		{"arm64", arm64, 44, []uint64{0}, retAllow},
		{"amd64", amd64, 34, []uint64{16, 3, 4}, retAllow},
		{"amd64", amd64, 34, []uint64{16, 3, 2}, fails(unix.EPERM)},
		{"arm64", arm64, 44, []uint64{1<<32 | 16, 3, 1}, fails(unix.EPERM)},
		{"arm64", arm64, 44, []uint64{2, 3, 1}, retAllow},
	} {
		if got := run(t, f, c.goarch, c.arch, c.number, c.arguments...); got != c.want {
			t.Errorf("%s: call %d of %#x with %v: %#x, want %#x", c.goarch, c.number, c.arch, c.arguments, got, c.want)
		}
	}
}

// TestNumbers compares the tables with golang.org/x/sys/unix for both architectures.
func TestNumbers(t *testing.T) {
	all := Base().Plus(Tracing()).Plus(Nesting()).Plus(SocketsBut()).Plus(Metadata())
	calls := all.Calls
	for _, c := range all.Conditions {
		calls = append(calls, c.Call)
	}
	for goarch, number := range map[string]func(Call) uint32{
		"amd64": func(c Call) uint32 { return c.AMD64 },
		"arm64": func(c Call) uint32 { return c.ARM64 },
	} {
		known := numbersOf(t, goarch)
		for _, c := range calls {
			want, ok := known[c.Name]
			if !ok {
				want = Absent
			}
			if number(c) != want {
				t.Errorf("%s has the number %d on %s, want %d", c.Name, number(c), goarch, want)
			}
		}
	}
}

// numbersOf reads the numbers of system calls from the source of
// golang.org/x/sys/unix.
func numbersOf(t *testing.T, goarch string) map[string]uint32 {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("%s/unix/zsysnum_linux_%s.go", strings.TrimSpace(string(dir)), goarch))
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]uint32{}
	for _, m := range regexp.MustCompile(`(?m)^\s+SYS_(\w+)\s+= (\d+)$`).FindAllSubmatch(text, -1) {
		n, err := strconv.ParseUint(string(m[2]), 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		numbers[strings.ToLower(string(m[1]))] = uint32(n)
	}
	if len(numbers) < 300 {
		t.Fatalf("only %d numbers found", len(numbers))
	}
	return numbers
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
