//go:build linux

package room

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/internal/fault"
)

// ReadOnlyPlace is Place for a command that can change nothing below a folder.
func (r *Room) ReadOnlyPlace(root bool, folder string) process.Place {
	return readOnly{place{room: r, root: root}, folder}
}

// readOnly is a place in which a folder is mounted read-only, over itself.
type readOnly struct {
	place
	folder string
}

// Enter implements process.Place.
func (p readOnly) Enter() error {
	if err := p.join(); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount apart from the room: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount apart from the room: %w", err)
	}
	if err := p.seal(); err != nil {
		return fault.Wrap("make read-only", p.folder, err).Advise("Name a folder that is there, by a path without links.")
	}
	if err := domain(); err != nil {
		return fault.New(fault.Unavailable, "make read-only", p.folder, err).Advise("The guest's kernel needs Landlock, of Linux 5.19 or later.")
	}
	return p.confine()
}

// seal puts the folder over itself, with all that is mounted in it.
func (p readOnly) seal() error {
	at, err := p.find()
	if err != nil {
		return err
	}
	defer unix.Close(at)
	tree, err := unix.OpenTree(at, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		_ = unix.Close(tree)
		return err
	}
	return put(tree, at)
}

// find opens the folder as the agent, whose it may be.
func (p readOnly) find() (at int, err error) {
	err = process.As(p.Credential(), func() error {
		at, err = lookUp(p.folder, unix.O_PATH|unix.O_DIRECTORY)
		return err
	})
	return at, err
}

// domain keeps the thread from reaching, through /proc, into the agent's other
// commands, where the folder can be written: a program in a domain of Landlock
// sees the inside of none without. It forbids nothing else that an agent can do.
func domain() error {
	const handled = unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_REFER
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled}
	// The fields after the first are newer than what is needed.
	rules, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	if errno != 0 {
		return fmt.Errorf("make a Landlock domain: %w", errno)
	}
	defer unix.Close(int(rules))
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	// Without a rule, nothing could be moved from one folder to another.
	moving := unix.LandlockPathBeneathAttr{Allowed_access: unix.LANDLOCK_ACCESS_FS_REFER, Parent_fd: int32(root)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, rules, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&moving)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("let a Landlock domain move files: %w", errno)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0); errno != 0 {
		return fmt.Errorf("enter a Landlock domain: %w", errno)
	}
	return nil
}
