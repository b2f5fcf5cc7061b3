//go:build linux

package room

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/process"
)

// devices makes /dev with the usual pseudo-devices, without the guest's own devices.
func (b *builder) devices() error {
	tree, err := newFS("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "mode=0755", "size=64k")
	if err := b.mountAt("dev", tree, err); err != nil {
		return err
	}
	dev, err := openBeneath(b.root, "dev", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(dev)
	const memory, terminal = 1, 5 // majors
	unix.Umask(0)
	for name, number := range map[string]uint64{
		"null": unix.Mkdev(memory, 3), "zero": unix.Mkdev(memory, 5), "full": unix.Mkdev(memory, 7),
		"random": unix.Mkdev(memory, 8), "urandom": unix.Mkdev(memory, 9), "tty": unix.Mkdev(terminal, 0),
	} {
		if err := unix.Mknodat(dev, name, unix.S_IFCHR|0o666, int(number)); err != nil {
			return &fs.PathError{Op: "make device", Path: name, Err: err}
		}
	}
	unix.Umask(0o022)
	for name, to := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := unix.Symlinkat(to, dev, name); err != nil {
			return err
		}
	}
	tree, err = newFS("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "ptmxmode=0666", "mode=0620", "max="+maxTerminals)
	if err := b.mountAt("dev/pts", tree, err); err != nil {
		return err
	}
	tree, err = newFS("tmpfs", still, "mode=1777", shmSize(b.Memory))
	if err := b.mountAt("dev/shm", tree, err); err != nil {
		return err
	}
	return b.seal("/dev")
}

// memory makes /run and the folder for shares.
func (b *builder) memory() error {
	tree, err := newFS("tmpfs", quiet, "mode=0755", runSize(b.Memory))
	if err := b.mountAt("run", tree, err); err != nil {
		return err
	}
	tree, err = newFS("tmpfs", still, "mode=0755", "size=64k")
	return b.mountAt(workspace, tree, err)
}

// temporary puts /tmp on the data disk, where the room's quota limits it instead of its memory:
// packages are built there.
func (b *builder) temporary() error {
	return b.bindFolder(b.Layer+"/tmp", "tmp", quiet)
}

// jobs mounts the logs of the room's jobs, read-only.
func (b *builder) jobs() error { return b.bindFolder(b.Layer+"/jobs", jobLogs, sealed) }

// shares mounts the shared folder if the host has provided it. Without a share there, agents would
// write to a folder of the guest.
func (b *builder) shares() error {
	for _, path := range []string{shared, output} {
		var st unix.Statfs_t
		if unix.Statfs(path, &st) != nil || st.Type != unix.FUSE_SUPER_MAGIC {
			continue
		}
		if err := b.bindFolder(path, path, quiet); err != nil {
			return err
		}
	}
	return nil
}

// bindFolder mounts a folder of the guest in the room. It looks the folder up as the agent, because
// the kernel caches owners on a share as the first user sees them.
func (b *builder) bindFolder(from, to string, attributes int) error {
	source := -1
	if err := b.asAgent(1<<unix.CAP_DAC_READ_SEARCH, func() (err error) {
		source, err = openNoLinks(from, unix.O_PATH|unix.O_DIRECTORY)
		return err
	}); err != nil {
		return err
	}
	defer unix.Close(source)
	tree, err := bindOf(source, attributes, 0)
	return b.mountAt(to, tree, err)
}

// asAgent runs f while this thread accesses files as the room's user, with the given capabilities:
// only root may enter some of the parent folders.
func (b *builder) asAgent(with uint64, f func() error) error {
	return process.As(&syscall.Credential{Uid: b.UID, Gid: b.UID}, func() error {
		if with != 0 {
			if err := setEffective(with, 0); err != nil {
				return err
			}
		}
		return f()
	})
}

// home mounts the agent's folder of the workspace, and in it the folders that are on the data disk.
// It is accessed only as the agent.
func (b *builder) home() error {
	if err := b.ensureHome(); err != nil {
		return err
	}
	if err := b.bindFolder(b.Home, b.Home, quiet); err != nil {
		return err
	}
	home := -1
	if err := b.asAgent(0, func() (err error) {
		home, err = openBeneath(b.root, b.Home[1:], unix.O_PATH|unix.O_DIRECTORY)
		return err
	}); err != nil {
		return err
	}
	defer unix.Close(home)
	for name, where := range heavy() {
		if err := b.heavy(home, name, where); err != nil {
			// The agent may have put something else there.
			b.warn("%s/%s stays on the share: %v", b.Home, name, err)
		}
	}
	return b.seal(workspace)
}

// seal makes a mount of the new root read-only, without the mounts below it.
func (b *builder) seal(path string) error {
	at, err := openBeneath(b.root, path[1:], unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := unix.MountSetattr(at, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	return nil
}

// ensureHome creates the home if the host has not.
func (b *builder) ensureHome() error {
	return b.asAgent(1<<unix.CAP_DAC_READ_SEARCH, func() error {
		fd, err := openNoLinks(b.Home, unix.O_PATH|unix.O_DIRECTORY)
		if err == nil {
			return unix.Close(fd)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_ = syscall.Setfsuid(0)
		top, err := openNoLinks("/", unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer unix.Close(top)
		made, err := folder(top, b.Home)
		if err != nil {
			return err
		}
		defer unix.Close(made)
		// On a share the host decides about owners.
		_ = unix.Fchownat(made, "", int(b.UID), int(b.UID), unix.AT_EMPTY_PATH)
		return nil
	})
}

func (b *builder) heavy(home int, name, where string) error {
	at := -1
	if err := b.asAgent(0, func() (err error) {
		at, err = folder(home, name)
		return err
	}); err != nil {
		return err
	}
	defer unix.Close(at)
	source, err := openNoLinks(b.Layer+"/heavy/"+where, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(source)
	return bindOnto(source, at, quiet, 0)
}

// settings mounts the guest's resolv.conf and the room's hosts and hostname over the files in /etc.
// The guest changes these files in place, so rooms see each change.
func (b *builder) settings() error {
	for from, to := range map[string]string{b.Resolvers: "/etc/resolv.conf", hostsFile(b.Files): "/etc/hosts", hostnameFile(b.Files): "/etc/hostname"} {
		if err := b.showFile(from, to, sealed); err != nil {
			b.warn("cannot mount %s, using the layer's file: %v", to, err)
		}
	}
	return nil
}

// showFile mounts a file of the guest over a file of the room. It removes a link there first, since
// a mount must not follow it.
func (b *builder) showFile(from, to string, attributes int) error {
	source, err := openNoLinks(from, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(source)
	dir, err := folder(b.root, filepath.Dir(to))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	name := filepath.Base(to)
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = unix.Unlinkat(dir, name, 0)
		fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return err
		}
		_ = unix.Close(fd)
	}
	at, err := openBeneath(dir, name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return bindOnto(source, at, attributes, 0)
}
