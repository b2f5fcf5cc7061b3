//go:build linux

package pid1

import (
	"errors"
	"io/fs"
	"os"
)

// setting is a file of /proc/sys and what is written there.
type setting struct{ name, value string }

// kernelSettings are what the kernel is told before anything of an agent runs. One
// that a kernel does not know is of something that it does not have.
func kernelSettings() []setting {
	return []setting{
		// Whoever is root of a user namespace reaches much of the kernel that
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
