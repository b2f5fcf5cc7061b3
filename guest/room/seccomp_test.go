//go:build linux

package room

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The numbers in the table are those of golang.org/x/sys/unix, for both
// architectures whatever this one is.
func TestNumbers(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "golang.org/x/sys/unix").Output()
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^\s+SYS_(\w+)\s+= (\d+)`)
	for name, a := range architectures {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "zsysnum_linux_"+name+".go"))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]uint32{}
		for _, m := range line.FindAllStringSubmatch(string(text), -1) {
			n, _ := strconv.ParseUint(m[2], 10, 32)
			want[strings.ToLower(m[1])] = uint32(n)
		}
		all := refused[:]
		for _, c := range conditions {
			all = append(all, c.refusal)
		}
		for _, r := range all {
			n, there := want[r.name]
			if !there {
				n = absent
			}
			if a.number(r) != n {
				t.Errorf("%s of %s is %d, not %d", r.name, name, n, a.number(r))
			}
		}
	}
}

// SECURITY.md lists what the table has.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range refused {
		if !strings.Contains(string(text), "`"+r.name+"`") {
			t.Errorf("SECURITY.md does not name %s", r.name)
		}
	}
	for _, c := range conditions {
		if !strings.Contains(string(text), "`"+c.name+"`") {
			t.Errorf("SECURITY.md does not name %s", c.name)
		}
	}
}

// TestFilter runs the program of each architecture as the kernel would.
func TestFilter(t *testing.T) {
	errno := func(e unix.Errno) uint32 { return retErrno | uint32(e) }
	for name, a := range architectures {
		vm, err := bpf.NewVM(a.program())
		if err != nil {
			t.Fatal(name, err)
		}
		answer := func(number, audit uint32, args ...uint64) uint32 {
			// The machine of x/net/bpf loads big-endian, as packets are.
			data := binary.BigEndian.AppendUint32(nil, number)
			data = binary.BigEndian.AppendUint32(data, audit)
			data = append(data, make([]byte, 8)...)
			for i := range 6 {
				v := uint64(0)
				if i < len(args) {
					v = args[i]
				}
				data = binary.BigEndian.AppendUint32(data, uint32(v))
				data = binary.BigEndian.AppendUint32(data, uint32(v>>32))
			}
			n, err := vm.Run(data)
			if err != nil {
				t.Fatal(err)
			}
			return uint32(n)
		}
		if got := answer(0, 0x40000003); got != retKill {
			t.Errorf("%s: a call of i386: %#x", name, got)
		}
		if got := answer(x32|1, a.audit); a.x32 && got != retKill {
			t.Errorf("%s: a call of x32: %#x", name, got)
		}
		for _, r := range refused {
			if n := a.number(r); n != absent {
				if got := answer(n, a.audit); got != errno(r.errno) {
					t.Errorf("%s: %s: %#x", name, r.name, got)
				}
			}
		}
		number := map[string]uint32{}
		for _, c := range conditions {
			number[c.name] = a.number(c.refusal)
		}
		for _, tc := range []struct {
			call string
			args []uint64
			want uint32
		}{
			{"socket", []uint64{unix.AF_VSOCK}, errno(unix.EAFNOSUPPORT)},
			{"socket", []uint64{7<<32 | unix.AF_VSOCK}, errno(unix.EAFNOSUPPORT)},
			{"socket", []uint64{unix.AF_PACKET}, errno(unix.EAFNOSUPPORT)},
			{"socket", []uint64{unix.AF_INET6}, retAllow}, {"socket", []uint64{unix.AF_UNIX}, retAllow},
			{"clone", []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, errno(unix.EPERM)},
			{"clone", []uint64{unix.CLONE_VM | unix.CLONE_THREAD}, retAllow},
			{"unshare", []uint64{unix.CLONE_NEWTIME}, errno(unix.EPERM)}, {"unshare", []uint64{unix.CLONE_FILES}, retAllow},
			{"ioctl", []uint64{0, fsSetXattr}, errno(unix.EPERM)}, {"ioctl", []uint64{0, fsGetXattr}, retAllow},
			{"ioctl", []uint64{0, unix.TIOCSTI}, errno(unix.EPERM)}, {"ioctl", []uint64{0, unix.TIOCGWINSZ}, retAllow},
		} {
			if got := answer(number[tc.call], a.audit, tc.args...); got != tc.want {
				t.Errorf("%s: %s%#x: %#x, want %#x", name, tc.call, tc.args, got, tc.want)
			}
		}
		const getpidAMD64, getpidARM64 = 39, 172
		for _, n := range []uint32{getpidAMD64, getpidARM64} {
			if got := answer(n, a.audit); name == "amd64" && n == getpidAMD64 && got != retAllow || name == "arm64" && n == getpidARM64 && got != retAllow {
				t.Errorf("%s: getpid: %#x", name, got)
			}
		}
	}
}
