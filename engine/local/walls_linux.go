package local

import (
	"errors"
	"os"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	landlocksys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/seccomp"
)

const oldKernel = "It needs Linux 6.12 or newer with Landlock switched on (lsm=landlock,… on the kernel's command line). Use a room."

// confine confines the child, except for system calls that it still needs.
func confine(c spec) error {
	if err := dropCapabilities(); err != nil {
		return err
	}
	return restrictFiles(c)
}

// confineCalls installs the system call filter, just before the command is executed.
func confineCalls(c spec) error {
	program, err := filter(c).Compile()
	if err == nil {
		err = program.Install(false)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "confine command", "", err)
	}
	return nil
}

// dropCapabilities drops root's capabilities. With no_new_privs no program gets them back.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	err := errors.Join(
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
		unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0),
		unix.Capset(&header, &none[0]))
	if err != nil {
		return fault.New(fault.Unavailable, "drop capabilities", "", err)
	}
	return nil
}

// readable lists what commands may read and execute: the system's programs, and files in
// /etc that programs need and that are not secret. Missing files are skipped.
var readable = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/run/current-system",
	"/proc", "/sys/devices/system/cpu",
	"/etc/alternatives", "/etc/bash.bashrc", "/etc/ca-certificates", "/etc/environment", "/etc/fonts", "/etc/gai.conf",
	"/etc/group", "/etc/host.conf", "/etc/hostname", "/etc/hosts", "/etc/inputrc", "/etc/ld.so.cache", "/etc/ld.so.conf",
	"/etc/ld.so.conf.d", "/etc/locale.conf", "/etc/localtime", "/etc/magic", "/etc/mime.types", "/etc/nsswitch.conf",
	"/etc/os-release", "/etc/passwd", "/etc/pki/tls/certs", "/etc/profile", "/etc/profile.d", "/etc/protocols",
	"/etc/python3", "/etc/resolv.conf", "/etc/services", "/etc/shells", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/terminfo",
	"/etc/timezone", "/run/systemd/resolve/stub-resolv.conf",
}

// devices lists the devices that commands may read and write.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// restrictFiles creates the command's Landlock domain, inside the monitor's.
func restrictFiles(c spec) error {
	config := landlock.V6
	if c.Network {
		config.HandledAccessNet = 0
	}
	rules := []landlock.Rule{
		landlock.RWFiles(devices...).IgnoreIfMissing(),
		landlock.RWDirs(c.Scratch).WithRefer(),
	}
	for _, path := range readable {
		// Landlock refuses rights of folders for a file.
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			rules = append(rules, landlock.RODirs(path))
		} else if err == nil {
			rules = append(rules, landlock.ROFiles(path))
		}
	}
	if c.ReadOnly {
		rules = append(rules, landlock.RODirs(c.Workspace))
	} else {
		rules = append(rules, landlock.RWDirs(c.Workspace).WithRefer())
	}
	if err := config.Restrict(rules...); err != nil {
		return fault.New(fault.Unavailable, "confine command", "", err).Advise(oldKernel)
	}
	return nil
}

// adopts is true: orphans become children of the monitor, which so knows when nothing is left.
const adopts = true

// mostCore is the limit of the size of core files. With 0 the system's core collector would
// still get one.
const mostCore = 1

// selfProgram returns the path of this program, also when its file was replaced.
func selfProgram() string { return "/proc/self/exe" }

// childProgram returns what the monitor starts.
func childProgram(spec) ([]string, *syscall.SysProcAttr) {
	return []string{selfProgram(), childName}, &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
}

// holdAll puts the monitor into a Landlock domain that signals cannot leave. Then kill(-1)
// reaches exactly the command's processes, however they are detached, and needs no
// root. The command is in a domain inside, whose signals do not reach the monitor.
func holdAll() error {
	const op = "hold command"
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fault.New(fault.Unavailable, op, "", err)
	}
	if err := restrictSignals(); err != nil {
		return err
	}
	// Without the domain, kill(-1) would kill all of the user's processes: make sure that
	// signals do not leave it.
	if err := unix.Kill(os.Getppid(), 0); err != unix.EPERM {
		return fault.Newf(fault.Unavailable, op, "", "a signal gets out of its Landlock domain (%v)", err).Advise(oldKernel)
	}
	return nil
}

// signalAll signals all of the command's processes.
func signalAll(_ int, sig syscall.Signal) error { return unix.Kill(-1, sig) }

// restrictSignals creates the monitor's domain, which signals and connections to abstract
// sockets cannot leave.
func restrictSignals() error {
	// A domain forbids moving files between folders unless it allows it.
	config, err := landlock.NewConfig(landlock.AccessFSSet(landlocksys.AccessFSRefer),
		landlock.ScopedSet(landlocksys.ScopeSignal|landlocksys.ScopeAbstractUnixSocket))
	if err == nil {
		err = config.Restrict(landlock.PathAccess(landlocksys.AccessFSRefer, "/"))
	}
	if err != nil {
		return fault.New(fault.Unavailable, "confine command", "", err).Advise(oldKernel)
	}
	return nil
}

// filter returns the system call filter, for what Landlock does not cover.
func filter(c spec) seccomp.Filter {
	var families []uint32
	if c.Network {
		families = []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
	}
	// Unix sockets are always refused: programs of the user behind them run commands
	// (the session bus, a container engine).
	f := seccomp.Base().Plus(seccomp.Tracing()).Plus(seccomp.Nesting()).Plus(seccomp.SocketsBut(families...))
	if c.ReadOnly {
		f = f.Plus(seccomp.Metadata())
	}
	return f
}
