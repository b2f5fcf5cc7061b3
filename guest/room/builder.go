//go:build linux

package room

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/layers"
	"osaurus-sandbox/guest/protocol"
)

// builder builds the root of a room in the room's own mount namespace. Files there may come from an
// agent, so builder opens paths without following links and mounts onto open descriptors.
type builder struct {
	plan
	warn func(string, ...any)
	root int // the new root, until the process enters it
	// shell is the user's login shell.
	shell string
}

// point is where the new root is mounted, in this namespace only. The other paths are inside the
// room.
const (
	point = "/run/osaurus/room"

	workspace = "/workspace"
	shared    = protocol.SharedDir
	output    = "/output"
)

// shmPart and runPart bound /dev/shm and /run to a fraction of the room's memory limit. Killing
// programs does not free that memory, so a room that filled it could not clean up.
const (
	shmPart, runPart = 4, 8
	maxRun           = 16 << 20
)

func shmSize(memory uint64) string { return "size=" + strconv.FormatUint(memory/shmPart, 10) }
func runSize(memory uint64) string {
	return "size=" + strconv.FormatUint(min(memory/runPart, maxRun), 10)
}

// maxTerminals bounds the pseudo-terminals of one room: the kernel has a limited number.
const maxTerminals = "64"

// heavy maps folders of the home to folders of the layer. They are on the data disk, which is
// faster than a share, because people do not read them on the host.
func heavy() map[string]string {
	return map[string]string{".venv": "venv", ".cache": "cache", ".osaurus/node_workspace": "node_workspace"}
}

const (
	quiet  = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	still  = quiet | unix.MOUNT_ATTR_NOEXEC
	sealed = still | unix.MOUNT_ATTR_RDONLY
)

func (b *builder) make() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := layers.Mount(point, b.Lower, b.Upper, b.Layer+"/work"); err != nil {
		return err
	}
	var err error
	if b.root, err = unix.Open(point, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open the root: %w", err)
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"user", b.addUser}, {"/dev", b.devices}, {"/proc", b.processes}, {"memory", b.memory}, {"/tmp", b.temporary},
		{"logs of jobs", b.jobs}, {"shares", b.shares}, {"home", b.home}, {"files of /etc", b.settings}, {"bridge", b.bridge},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return b.enter()
}

// enter makes the new root the only one.
func (b *builder) enter() error {
	if err := unix.Fchdir(b.root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the guest's root: %w", err)
	}
	return errors.Join(unix.Chdir("/"), unix.Close(b.root))
}

// newFS creates a file system that is not attached to any path yet.
func newFS(kind string, attributes int, options ...string) (int, error) {
	f, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", kind, err)
	}
	defer unix.Close(f)
	for _, o := range options {
		key, value, ok := strings.Cut(o, "=")
		set := func() error { return unix.FsconfigSetFlag(f, key) }
		if ok {
			set = func() error { return unix.FsconfigSetString(f, key, value) }
		}
		if err := set(); err != nil {
			return -1, fmt.Errorf("%s with %s: %w", kind, o, err)
		}
	}
	if err := unix.FsconfigCreate(f); err != nil {
		return -1, fmt.Errorf("%s: %w", kind, err)
	}
	return unix.Fsmount(f, unix.FSMOUNT_CLOEXEC, attributes)
}

// bindOf clones the mount of an open file, with the mounts below it if flags has AT_RECURSIVE. Mount
// the result with mountOnto.
func bindOf(fd, attributes int, flags uint) (int, error) {
	tree, err := unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|flags)
	if err != nil {
		return -1, fmt.Errorf("clone a mount: %w", err)
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|flags, &unix.MountAttr{Attr_set: uint64(attributes)}); err != nil {
		_ = unix.Close(tree)
		return -1, fmt.Errorf("set mount attributes: %w", err)
	}
	return tree, nil
}

// mountOnto mounts tree onto the open file or folder. It closes tree.
func mountOnto(tree, onto int) error {
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", onto, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

// bindOnto mounts the open file or folder source onto another.
func bindOnto(source, onto, attributes int, flags uint) error {
	tree, err := bindOf(source, attributes, flags)
	if err != nil {
		return err
	}
	return mountOnto(tree, onto)
}

// openBeneath opens a path below a folder without following links.
func openBeneath(dir int, name string, flags int) (int, error) {
	return open(dir, name, flags, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_BENEATH)
}

// openNoLinks opens an absolute path of the guest without following links.
func openNoLinks(path string, flags int) (int, error) {
	return open(unix.AT_FDCWD, path, flags, unix.RESOLVE_NO_SYMLINKS)
}

func open(dir int, name string, flags int, resolve uint64) (int, error) {
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve})
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, nil
}

// folder opens a folder below dir and creates missing parts of the path.
func folder(dir int, path string) (int, error) {
	at, err := unix.Dup(dir)
	if err != nil {
		return -1, err
	}
	unix.CloseOnExec(at)
	for _, name := range strings.Split(filepath.Clean(path), "/") {
		if name == "" || name == "." {
			continue
		}
		if err := unix.Mkdirat(at, name, 0o755); err != nil && err != unix.EEXIST {
			_ = unix.Close(at)
			return -1, &fs.PathError{Op: "make", Path: path, Err: err}
		}
		next, err := openBeneath(at, name, unix.O_PATH|unix.O_DIRECTORY)
		_ = unix.Close(at)
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// mountAt mounts tree onto a folder of the new root.
func (b *builder) mountAt(path string, tree int, err error) error {
	if err != nil {
		return err
	}
	at, err := folder(b.root, path)
	if err != nil {
		_ = unix.Close(tree)
		return err
	}
	defer unix.Close(at)
	return mountOnto(tree, at)
}
