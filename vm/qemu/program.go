//go:build linux

package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/vm"
)

// The oldest supported QEMU (Debian 12). Older versions lack machine properties that this driver
// sets.
const (
	oldestMajor = 7
	oldestMinor = 2
)

const (
	// probeTimeout is long enough to load QEMU from a cold disk.
	probeTimeout = 20 * time.Second
	maxQuoted    = 200 // characters of what a program printed
)

// extraDirs are searched after the PATH, which can be short in services and desktop applications.
var extraDirs = []string{"/usr/bin", "/usr/local/bin", "/home/linuxbrew/.linuxbrew/bin", "/run/current-system/sw/bin"}

// guestMachine returns QEMU's name of an architecture.
func guestMachine(arch vm.Arch) string {
	if arch == vm.ARM64 {
		return "aarch64"
	}
	return "x86_64"
}

// program is a usable QEMU.
type program struct {
	path         string
	major, minor int
}

// findProgram finds the QEMU for an architecture and checks its version.
func findProgram(ctx context.Context, arch vm.Arch) (program, error) {
	const op = "find qemu"
	name := "qemu-system-" + guestMachine(arch)
	path, err := lookPath(name)
	if err != nil {
		return program{}, fault.New(fault.Unavailable, op, name, err).Advise("Install QEMU: " + installCommand(arch))
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = environment()
	out, err := cmd.Output()
	if err != nil {
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, printable.Line(string(e.Stderr), maxQuoted))
		}
		return program{}, fault.New(fault.Unavailable, op, path, err).Advise("This QEMU does not start. Reinstall it: " + installCommand(arch))
	}
	major, minor, err := parseVersion(out)
	if err != nil {
		return program{}, fault.New(fault.Unavailable, op, path, err).Advise("This program is not QEMU. Install QEMU: " + installCommand(arch))
	}
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return program{}, fault.Newf(fault.Unavailable, op, path, "version %d.%d is too old", major, minor).
			Advise(fmt.Sprintf("Version %d.%d or newer is needed: %s", oldestMajor, oldestMinor, installCommand(arch)))
	}
	return program{path, major, minor}, nil
}

func lookPath(name string) (string, error) {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), extraDirs...) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(path) {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

func parseVersion(out []byte) (major, minor int, err error) {
	if _, err := fmt.Sscanf(string(out), "QEMU emulator version %d.%d", &major, &minor); err != nil {
		return 0, 0, fmt.Errorf("no version in %q", printable.Line(string(out), maxQuoted))
	}
	return major, minor, nil
}

// packagers are package managers with the commands that install QEMU, and its packages. The first that
// is installed is used.
var packagers = []struct{ program, command, x86, arm string }{
	{"apt-get", "sudo apt-get install -y --no-install-recommends ", "qemu-system-x86", "qemu-system-arm"},
	{"dnf", "sudo dnf install -y ", "qemu-system-x86-core", "qemu-system-aarch64-core"},
	{"zypper", "sudo zypper install -y ", "qemu-x86", "qemu-arm"},
	{"pacman", "sudo pacman -S --needed ", "qemu-system-x86", "qemu-system-aarch64"},
	{"apk", "sudo apk add ", "qemu-system-x86_64", "qemu-system-aarch64"},
	{"brew", "brew install ", "qemu", "qemu"},
}

// installCommand returns the command that installs QEMU on this host.
func installCommand(arch vm.Arch) string {
	for _, p := range packagers {
		if _, err := exec.LookPath(p.program); err == nil {
			return p.command + map[vm.Arch]string{vm.AMD64: p.x86, vm.ARM64: p.arm}[arch]
		}
	}
	return "see https://www.qemu.org/download/ for qemu-system-" + guestMachine(arch)
}
