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

	"osaurus-sandbox/guest/protocol"
)

// builder makes the root of a room, in the room's own mount namespace. An agent may have made
// the files there in an earlier life of the room: paths are opened without following links, and
// mounts go onto open descriptors.
type builder struct {
	plan
	warn func(string, ...any)
	root int // the new root, until the process enters it
	// shell is the user's login shell.
	shell string
}

// point is where the new root is mounted, in this namespace only. The others are paths in the room.
const (
	point = "/run/osaurus/room"

	workspace = "/workspace"
	shared    = protocol.SharedDir
	output    = "/output"
)

// shmPart and runPart bound a room's file systems in memory, as parts of its limit: killing
// programs frees none of that memory, and a room full of it could not even clean up.
const (
	shmPart, runPart = 4, 8
	maxRun           = 16 << 20
)

func shmSize(memory uint64) string { return "size=" + strconv.FormatUint(memory/shmPart, 10) }
func runSize(memory uint64) string {
	return "size=" + strconv.FormatUint(min(memory/runPart, maxRun), 10)
}

// maxTerminals is more than an agent needs, and the kernel's are few.
const maxTerminals = "64"

// heavy are folders of a home that people do not read on the host. They lie on the data disk,
// which is faster than a share. The values are names of folders of the layer.
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
		return fmt.Errorf("part from the guest's mounts: %w", err)
	}
	layer := "lowerdir=" + b.Base + ",upperdir=" + b.Layer + "/upper,workdir=" + b.Layer + "/work"
	if err := unix.Mount("overlay", point, "overlay", unix.MS_NOSUID|unix.MS_NODEV, layer); err != nil {
		return fmt.Errorf("mount the layer: %w", err)
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
		return fmt.Errorf("let the guest's root go: %w", err)
	}
	return errors.Join(unix.Chdir("/"), unix.Close(b.root))
}

// newFS makes a file system that is mounted nowhere yet.
func newFS(kind string, attributes int, options ...string) (int, error) {
	f, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", kind, err)
	}
	defer unix.Close(f)
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		if err := unix.FsconfigSetString(f, key, value); err != nil {
			return -1, fmt.Errorf("%s with %s: %w", kind, o, err)
		}
	}
	if err := unix.FsconfigCreate(f); err != nil {
		return -1, fmt.Errorf("%s: %w", kind, err)
	}
	return unix.Fsmount(f, unix.FSMOUNT_CLOEXEC, attributes)
}

// bindOf clones the mount of an open file, to be mounted elsewhere.
func bindOf(fd, attributes int) (int, error) {
	tree, err := unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("clone a mount: %w", err)
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: uint64(attributes)}); err != nil {
		_ = unix.Close(tree)
		return -1, fmt.Errorf("set what a mount allows: %w", err)
	}
	return tree, nil
}

// mountOnto mounts a tree, which it closes, onto what is open.
func mountOnto(tree, onto int) error {
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", onto, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

// openBeneath opens something below a folder without following any link.
func openBeneath(dir int, name string, flags int) (int, error) {
	return open(dir, name, flags, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_BENEATH)
}

// openNoLinks opens an absolute path of the guest without following any link.
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

// folder opens a folder below another, making what is missing of it.
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

// mountAt puts a tree onto a folder of the new root.
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
