package local

import (
	"os"
	"slices"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	landlocksys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/seccomp"
)

const oldKernel = "It needs Linux 6.12 or newer with Landlock switched on (lsm=landlock,… on the kernel's command line). Use a room."

// available says what is missing before anything is tried.
func available() error { return nil }

// confine confines the cell, but for system calls that it still needs.
func confine(c cell) error {
	if err := dropCapabilities(); err != nil {
		return err
	}
	return restrictFiles(c)
}

// confineCalls is the last thing before the cell becomes the command.
func confineCalls(c cell) error {
	program, err := filter(c).Compile()
	if err == nil {
		err = program.Install(false)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "confine command", "", err)
	}
	return nil
}

// dropCapabilities leaves root without what makes it root. With no_new_privs
// nothing that it executes gets any of it back.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fault.New(fault.Unavailable, "forbid new privileges", "", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fault.New(fault.Unavailable, "drop capabilities", "", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fault.New(fault.Unavailable, "drop capabilities", "", err)
	}
	return nil
}

// What commands may read and execute: the system's programs, and of /etc what
// programs need to start and to find names, nothing of which is secret. What
// does not exist on a system is left out.
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

// devices are those that a command may also write to.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// restrictFiles is a Landlock domain of the command's own, below the warden's.
func restrictFiles(c cell) error {
	config := landlock.V6
	if c.Network {
		config.HandledAccessNet = 0
	}
	rules := []landlock.Rule{
		landlock.RWFiles(devices...).IgnoreIfMissing(),
		landlock.RWDirs(c.Scratch).WithRefer(),
	}
	for _, path := range slices.Concat(readable, c.Readable) {
		// Landlock takes rights to a folder only for a folder.
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			rules = append(rules, landlock.RODirs(path))
		} else if err == nil || slices.Contains(c.Readable, path) {
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

// adopts says that whatever the command leaves behind becomes the warden's, who
// so knows when nothing is left.
const adopts = true

// mostCore is the limit of core files, which leaves none: 0 would still hand the
// core to a collector of the system.
const mostCore = 1

// selfProgram is this very program, also when its file was replaced.
func selfProgram() string { return "/proc/self/exe" }

// cellProgram is what the warden starts, and how.
func cellProgram(cell) ([]string, *syscall.SysProcAttr) {
	return []string{selfProgram(), cellName}, &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
}

// holdAll gives the warden a Landlock domain of its own, from which no signal
// leads out: so kill(-1) in it is a kill of the command's processes and no others,
// all at once, however they are detached, and without root. The command is in a
// domain below it, from which no signal reaches the warden.
func holdAll() error {
	const op = "hold command"
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fault.New(fault.Unavailable, op, "", err)
	}
	if err := restrictSignals(); err != nil {
		return err
	}
	// kill(-1) without a domain would end everything of the user's. So it is seen
	// that signals do not get out, not believed.
	if err := unix.Kill(os.Getppid(), 0); err != unix.EPERM {
		return fault.Newf(fault.Unavailable, op, "", "a signal gets out of its Landlock domain (%v)", err).Advise(oldKernel)
	}
	return nil
}

// signalAll signals everything that the warden holds.
func signalAll(_ int, sig syscall.Signal) error { return unix.Kill(-1, sig) }

// describe puts a cell into memory that the helpers read, whatever its size.
func describe(c cell) (*os.File, error) {
	fd, err := unix.MemfdCreate("cell", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return encoded(c, os.NewFile(uintptr(fd), "cell"))
}

// restrictSignals is the warden's domain: nothing in it signals anything
// outside, or speaks with it over an abstract socket.
func restrictSignals() error {
	// Every domain forbids to move files between folders, also one that is about
	// something else; so this one has to allow it.
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

// filter refuses what Landlock does not know of.
func filter(c cell) seccomp.Filter {
	var families []uint32
	if c.Network {
		families = []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
	}
	// Sockets with a path are refused either way: behind one waits a program of the
	// user's that runs what it is told to (the session bus, a container engine).
	f := seccomp.Base().Plus(seccomp.Tracing()).Plus(seccomp.Nesting()).Plus(seccomp.SocketsBut(families...))
	if c.ReadOnly {
		f = f.Plus(seccomp.Metadata())
	}
	return f
}
