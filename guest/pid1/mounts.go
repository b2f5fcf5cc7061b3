//go:build linux

package pid1

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/fault"
)

// resolvers is the resolv.conf that is mounted in rooms.
const resolvers = own + "/resolv.conf"

const cgroups = "/sys/fs/cgroup"

// quiet are the flags of mounts without setuid programs and devices.
const quiet = unix.MS_NOSUID | unix.MS_NODEV

// mount creates target if it is missing and mounts source on it.
func mount(source, target, fstype string, flags uintptr, data string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		return &os.PathError{Op: "mount " + fstype, Path: target, Err: err}
	}
	return nil
}

// mountKernel mounts /proc, /sys and other kernel file systems. They are moved when the root
// changes.
func mountKernel() error {
	for _, f := range []struct {
		source, target, fstype string
		flags                  uintptr
		data                   string
	}{
		{"proc", "/proc", "proc", quiet | unix.MS_NOEXEC, "hidepid=invisible"},
		{"sysfs", "/sys", "sysfs", quiet | unix.MS_NOEXEC, ""},
		{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, "mode=0755"},
		{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=0620,ptmxmode=0666"},
		{"tmpfs", "/dev/shm", "tmpfs", quiet, "mode=1777"},
	} {
		// Some kernels mount /dev on their own.
		if err := mount(f.source, f.target, f.fstype, f.flags, f.data); err != nil && !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(target, "/dev/"+name); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return mount("cgroup2", cgroups, "cgroup2", quiet|unix.MS_NOEXEC, "nsdelegate,memory_recursiveprot")
}

// mountShare mounts a virtiofs share. It does not follow links in the path, which may be on another
// share that agents can write to.
func mountShare(want *guestpb.Mount) error {
	const op = "mount share"
	path := string(want.Path)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fault.New(fault.Execution, op, want.Tag, err)
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return fault.New(fault.Rejected, op, want.Tag, &os.PathError{Op: "open", Path: path, Err: err}).
			Advise("The path of a mount must not contain links: choose another path.")
	}
	defer unix.Close(fd)
	flags := uintptr(quiet)
	if want.ReadOnly {
		flags |= unix.MS_RDONLY
	}
	err = unix.Mount(want.Tag, fmt.Sprintf("/proc/self/fd/%d", fd), "virtiofs", flags, "")
	switch {
	case errors.Is(err, unix.EINVAL):
		return fault.New(fault.NotFound, op, want.Tag, err).Advise("The machine has no share with this tag.")
	case errors.Is(err, unix.ENODEV):
		return fault.New(fault.Unavailable, op, want.Tag, err).Advise("The image has no virtiofs module: rebuild it.")
	case err != nil:
		return fault.New(fault.Execution, op, want.Tag, err)
	}
	return nil
}

// replace writes a file in /etc. It removes the old file first, which is often a link.
func replace(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp := path + ".osaurus"
	if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

func writeHosts(hostname string) error {
	text := "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n"
	if hostname != "" {
		text += "127.0.1.1\t" + hostname + "\n"
		if err := replace("/etc/hostname", hostname+"\n"); err != nil {
			return err
		}
	}
	return replace("/etc/hosts", text)
}

// writeResolvers makes a name server the only one of the guest and its rooms.
func writeResolvers(dns netip.Addr) error {
	text := "nameserver " + dns.String() + "\n"
	// Write the file for rooms in place: they have it mounted and would not see a new one.
	return errors.Join(replace("/etc/resolv.conf", text), os.WriteFile(resolvers, []byte(text), 0o644))
}
