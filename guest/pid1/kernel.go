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

// setting is a file of /proc/sys and what is written there.
type setting struct{ name, value string }

// kernelSettings are what the kernel is told before anything of an agent runs. One
// that a kernel does not know is of something that it does not have.
func kernelSettings() []setting {
	return []setting{
		// The root of a user namespace reaches much of the kernel that
		// is otherwise root's alone. Nothing in a room needs one.
		{"user/max_user_namespaces", "0"},
		{"kernel/unprivileged_bpf_disabled", "1"},
		{"kernel/perf_event_paranoid", "3"},
		{"kernel/kexec_load_disabled", "1"},
		{"kernel/dmesg_restrict", "1"},
		{"kernel/kptr_restrict", "2"},
		{"kernel/sysrq", "0"},
		{"kernel/io_uring_disabled", "2"},
		{"vm/unprivileged_userfaultfd", "0"},
		// A debugger reaches what it started.
		{"kernel/yama/ptrace_scope", "1"},
		// In folders that all may write to, as /tmp is.
		{"fs/protected_symlinks", "1"},
		{"fs/protected_hardlinks", "1"},
		{"fs/protected_fifos", "2"},
		{"fs/protected_regular", "2"},
		// What is one number for the whole guest, one agent could use up. Open
		// files count as memory of a room and processes as its pids; that is
		// their bound.
		{"fs/file-max", "9223372036854775807"},
		{"kernel/pid_max", "4194304"},
		{"kernel/threads-max", "4194304"},
		{"kernel/pty/max", "65536"},
		// What a socket of netlink or of ping is sent and nobody reads counts as no
		// room's memory. Thirty full packets are enough for who does read.
		{"net/core/rmem_default", "65536"},
		{"net/core/rmem_max", "65536"},
	}
}

// lastKernelSettings are for when all modules are loaded.
func lastKernelSettings() []setting { return []setting{{"kernel/modules_disabled", "1"}} }

func (m *machine) set(list []setting) {
	for _, s := range list {
		err := os.WriteFile("/proc/sys/"+s.name, []byte(s.value), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.warn("set "+s.name, err)
		}
	}
}

// startProcessors starts those that the kernel was told to leave alone while it
// boots (maxcpus=), and lets this process use them.
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

// patchForGood has the kernel patch itself now for what every agent could have it patch itself
// for at any time, most of it again and again: it begins with the first socket that asks, and
// ends with the last. With several processors running, that can hang a guest that QEMU emulates
// (RATIONALE.md). So a socket for each stays open for as long as this process. What a kernel
// refuses, it does not patch itself for.
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

// signTo has a socket of TCP sign what it would send to an address that nobody has.
func signTo(fd int) error {
	s := unix.TCPMD5Sig{Addr: unix.SockaddrStorage{Family: unix.AF_INET}, Keylen: 1}
	return unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, &s)
}

// labelAlone has a socket own a flow label of IPv6, for the loopback's address.
func labelAlone(fd int) error {
	const ( // of linux/in6.h
		manage            = 32 // IPV6_FLOWLABEL_MGR
		size              = 32 // struct in6_flowlabel_req: the address, then label,
		share, flags      = 21, 22
		exclusive, create = 1, 1
	)
	request := [size]byte{15: 1, share: exclusive, flags: create} // the lower half of flags
	return unix.SetsockoptString(fd, unix.IPPROTO_IPV6, manage, string(request[:]))
}
