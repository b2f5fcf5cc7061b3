//go:build linux

package room

import (
	"fmt"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"
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

// domain puts the thread into a Landlock domain. Through /proc it could otherwise reach into the
// agent's other commands, where the folder is writable. The domain forbids nothing else that an
// agent can do.
func domain() error {
	rules, err := landlock.LandlockCreateRuleset(&landlock.RulesetAttr{HandledAccessFS: unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_REFER}, 0)
	if err != nil {
		return fmt.Errorf("make a Landlock domain: %w", err)
	}
	defer unix.Close(rules)
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	// Without a rule, nothing could be moved from one folder to another.
	moving := landlock.PathBeneathAttr{AllowedAccess: unix.LANDLOCK_ACCESS_FS_REFER, ParentFd: root}
	if err := landlock.LandlockAddPathBeneathRule(rules, &moving, 0); err != nil {
		return fmt.Errorf("let a Landlock domain move files: %w", err)
	}
	if err := landlock.LandlockRestrictSelf(rules, 0); err != nil {
		return fmt.Errorf("enter a Landlock domain: %w", err)
	}
	return nil
}
