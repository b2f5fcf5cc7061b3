//go:build linux

package room

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/network"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/internal/fault"
)

// place implements process.Place for a room.
type place struct {
	room *Room
	root bool
	// hidden keeps the command out of the room's pid namespace, so that the room's processes cannot
	// see or stop it.
	hidden   bool
	readOnly string          // folder that the command cannot change; empty for none
	plugin   config.PluginID // of the command; empty for none
	// ownNetwork gives the command the network of this namespace, or with nil one of its own, which
	// has only a loopback.
	ownNetwork bool
	namespace  *os.File
}

// Place returns the place for a command of the room, run as its agent or as its root.
func (r *Room) Place(root bool) process.Place { return place{room: r, root: root} }

// HiddenPlace is like Place, for a program of the guest that runs as the room's agent. It has the
// agent's view and permissions, and the agent's processes cannot see it.
func (r *Room) HiddenPlace() process.Place { return place{room: r, hidden: true} }

// ReadOnlyPlace is like Place, for a command that cannot change anything below folder.
func (r *Room) ReadOnlyPlace(root bool, folder string) process.Place {
	return place{room: r, root: root, readOnly: folder}
}

// PluginPlace is like Place, for a program of a plugin. The relay can tell it from the agent's
// other programs, and it cannot access those. With ownNetwork, it has the network of an address, or
// without one only a loopback.
func (r *Room) PluginPlace(plugin config.PluginID, ownNetwork bool, address []byte) (process.Place, error) {
	p := place{room: r, plugin: plugin, ownNetwork: ownNetwork}
	if own, ok := netip.AddrFromSlice(address); ok {
		var err error
		if p.namespace, err = r.plugins.get(own); err != nil {
			return nil, fault.New(fault.Execution, "connect plugin", string(plugin), err)
		}
	}
	return p, nil
}

// entered are the namespaces of a room. There is no cgroup namespace: from inside one, the kernel
// refuses to start a child in a group outside of it.
const entered = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// Enter moves the calling thread into the room.
func (p place) Enter() error {
	if err := p.join(); err != nil {
		return err
	}
	if p.readOnly != "" {
		if err := p.seal(); err != nil {
			return fault.Wrap("make read-only", p.readOnly, err).Advise("Name an existing folder, by a path without links.")
		}
	}
	if err := p.enterNetwork(); err != nil {
		return err
	}
	if p.readOnly != "" || p.plugin != "" {
		if err := domain(); err != nil {
			return fault.New(fault.Unavailable, "restrict command", p.room.User(), err).Advise("The guest's kernel needs Landlock, of Linux 5.19 or later.")
		}
	}
	if err := p.dropCapabilities(); err != nil {
		return err
	}
	return p.room.filter.Install(false)
}

// enterNetwork moves the calling thread to the plugin's network, if it has its own.
func (p place) enterNetwork() error {
	switch {
	case !p.ownNetwork:
		return nil
	case p.namespace != nil:
		if err := unix.Setns(int(p.namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the plugin's network: %w", err)
		}
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare the network: %w", err)
	}
	if err := network.Loopback(); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	return nil
}

// join moves the calling thread into the room's namespaces.
func (p place) join() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare the root: %w", err)
	}
	namespaces := entered
	if p.hidden {
		namespaces &^= unix.CLONE_NEWPID
	}
	if err := unix.Setns(int(p.room.pidfd.Fd()), namespaces); err != nil {
		return fmt.Errorf("enter the room: %w", err)
	}
	return nil
}

// dropCapabilities limits the capabilities of programs that the thread starts. An agent's program
// loses the rest when it changes its user.
func (p place) dropCapabilities() error {
	keep := uint64(0)
	if p.root {
		keep = rootCapabilities
	}
	if err := dropBounding(keep); err != nil {
		return err
	}
	if !p.root {
		return nil
	}
	return keepOnly(keep)
}

// Credential returns the agent's user, or nil for root.
func (p place) Credential() *syscall.Credential {
	if p.root {
		return nil
	}
	return &syscall.Credential{Uid: p.room.spec.Uid, Gid: p.room.spec.Uid}
}

// Cgroup returns the room's group.
func (p place) Cgroup() string { return string(p.room.group) }

// Mark returns the plugin.
func (p place) Mark() string { return string(p.plugin) }

// Multiplexer returns the room's ptmx.
func (p place) Multiplexer() int { return int(p.room.ptmx.Fd()) }

// inits is the group of all first processes, so that they can reap even when their room is at its
// limits. User names have no dot.
const inits = ".init"

// initPlace is the Place of first processes: the guest's root.
type initPlace struct{ group group }

func (initPlace) Enter() error                    { return nil }
func (initPlace) Credential() *syscall.Credential { return nil }
func (t initPlace) Cgroup() string                { return string(t.group) }
func (initPlace) Mark() string                    { return "" }

// seal mounts the read-only folder, with all mounts below it, read-only over itself. No other
// process sees that.
func (p place) seal() error {
	if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")); err != nil {
		return fmt.Errorf("mount apart from the room: %w", err)
	}
	at := -1
	if err := process.As(p.Credential(), func() (err error) { // with the agent's permissions
		at, err = openNoLinks(p.readOnly, unix.O_PATH|unix.O_DIRECTORY)
		return err
	}); err != nil {
		return err
	}
	defer unix.Close(at)
	return bindOnto(at, at, unix.MOUNT_ATTR_RDONLY, unix.AT_RECURSIVE)
}

// domain puts the thread into a Landlock domain. Without it, the program could use /proc to reach
// the agent's other commands, where a read-only folder is writable, or control one of them and call
// the bridge as that program. The domain restricts nothing else.
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
	// Without this rule, files could not be moved between folders.
	moving := landlock.PathBeneathAttr{AllowedAccess: unix.LANDLOCK_ACCESS_FS_REFER, ParentFd: root}
	if err := landlock.LandlockAddPathBeneathRule(rules, &moving, 0); err != nil {
		return fmt.Errorf("allow moves in a Landlock domain: %w", err)
	}
	if err := landlock.LandlockRestrictSelf(rules, 0); err != nil {
		return fmt.Errorf("enter a Landlock domain: %w", err)
	}
	return nil
}
