package local

import (
	"os"
	"slices"

	"github.com/landlock-lsm/go-landlock/landlock"
	landlocksys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/sandbox/seccomp"
)

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

const oldKernel = "It needs Linux 6.12 or newer with Landlock switched on (lsm=landlock,… on the kernel's command line). Use the room backend."

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
