//go:build linux

package pid1

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// setting is a sysctl: a file of /proc/sys and its value.
type setting struct{ name, value string }

// kernelSettings are the sysctls to set before any program of an agent runs. Settings that the
// kernel does not have are skipped.
func kernelSettings() []setting {
	return []setting{
		// Root in a user namespace can reach much of the kernel that is otherwise reserved for real
		// root. Rooms do not need user namespaces.
		{"user/max_user_namespaces", "0"},
		{"kernel/unprivileged_bpf_disabled", "1"},
		{"kernel/perf_event_paranoid", "3"},
		{"kernel/kexec_load_disabled", "1"},
		{"kernel/dmesg_restrict", "1"},
		{"kernel/kptr_restrict", "2"},
		{"kernel/sysrq", "0"},
		{"kernel/io_uring_disabled", "2"},
		{"vm/unprivileged_userfaultfd", "0"},
		// A debugger can attach to its own descendants only.
		{"kernel/yama/ptrace_scope", "1"},
		// Protect links in world-writable folders such as /tmp.
		{"fs/protected_symlinks", "1"},
		{"fs/protected_hardlinks", "1"},
		{"fs/protected_fifos", "2"},
		{"fs/protected_regular", "2"},
		// One agent could use up limits that count for the whole guest. Open files are bounded by
		// the room's memory limit, and processes by its pids limit.
		{"fs/file-max", "9223372036854775807"},
		{"kernel/pid_max", "4194304"},
		{"kernel/threads-max", "4194304"},
		{"kernel/pty/max", "65536"},
		// Unread messages in netlink and ping sockets are not charged to the room's memory. Thirty
		// full packets are enough for a program that reads.
		{"net/core/rmem_default", "65536"},
		{"net/core/rmem_max", "65536"},
	}
}

func (m *machine) set(list []setting) {
	for _, s := range list {
		err := os.WriteFile("/proc/sys/"+s.name, []byte(s.value), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.warn("set "+s.name, err)
		}
	}
}

// startProcessors starts the processors that maxcpus= kept off during boot, and lets this process
// use them.
func startProcessors(warn func(what string, err error)) {
	files, _ := filepath.Glob("/sys/devices/system/cpu/cpu*/online")
	for _, f := range files {
		if strings.TrimSpace(read(f)) != "0" {
			continue
		}
		if err := os.WriteFile(f, []byte("1"), 0); err != nil {
			warn("start "+filepath.Base(filepath.Dir(f)), err)
		}
	}
	runtime.SetDefaultGOMAXPROCS()
}

// patchForGood makes the kernel apply code patches now that agents could otherwise trigger at any
// time. The kernel patches its code when the first socket uses certain options and again when the
// last is closed, which can hang emulated processors (RATIONALE.md). So this process keeps one
// socket open for each. Errors are ignored: an option that the kernel refuses causes no patch.
func patchForGood() {
	number := func(level, option, value int) func(int) error {
		return func(fd int) error { return unix.SetsockoptInt(fd, level, option, value) }
	}
	for _, keep := range []struct {
		family, kind int
		ask          func(fd int) error
	}{
		{unix.AF_INET, unix.SOCK_DGRAM, number(unix.SOL_SOCKET, unix.SO_TIMESTAMP, 1)},
		{unix.AF_INET, unix.SOCK_DGRAM, number(unix.IPPROTO_UDP, unix.UDP_ENCAP, unix.UDP_ENCAP_L2TPINUDP)},
		{unix.AF_INET6, unix.SOCK_DGRAM, number(unix.IPPROTO_UDP, unix.UDP_ENCAP, unix.UDP_ENCAP_L2TPINUDP)},
		{unix.AF_INET, unix.SOCK_STREAM, number(unix.IPPROTO_IP, unix.IP_MINTTL, 1)},
		{unix.AF_INET6, unix.SOCK_STREAM, number(unix.IPPROTO_IPV6, unix.IPV6_MINHOPCOUNT, 1)},
		{unix.AF_INET, unix.SOCK_STREAM, signTo},
		{unix.AF_INET6, unix.SOCK_DGRAM, labelAlone},
	} {
		if fd, err := unix.Socket(keep.family, keep.kind|unix.SOCK_CLOEXEC, 0); err == nil {
			_ = keep.ask(fd)
		}
	}
}

// signTo enables TCP MD5 signatures on a socket, for an unused address.
func signTo(fd int) error {
	s := unix.TCPMD5Sig{Addr: unix.SockaddrStorage{Family: unix.AF_INET}, Keylen: 1}
	return unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, &s)
}

// labelAlone reserves an exclusive IPv6 flow label for the loopback address.
func labelAlone(fd int) error {
	const ( // linux/in6.h
		manage            = 32 // IPV6_FLOWLABEL_MGR
		size              = 32 // struct in6_flowlabel_req: the address, then label,
		share, flags      = 21, 22
		exclusive, create = 1, 1
	)
	request := [size]byte{15: 1, share: exclusive, flags: create} // low byte of flags
	return unix.SetsockoptString(fd, unix.IPPROTO_IPV6, manage, string(request[:]))
}
