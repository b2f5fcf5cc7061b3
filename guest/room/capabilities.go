//go:build linux

package room

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// rootCapabilities are what installing packages takes, and all that the root
// of a room has.
const rootCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_KILL

// bound takes all capabilities but some out of the thread's bounding set.
func bound(keep uint64) error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if keep&(1<<c) != 0 {
			continue
		}
		// EINVAL is a capability that is newer than the kernel.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	return nil
}

// hold leaves the thread only some of the capabilities that it has.
func hold(keep uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{
		{Effective: uint32(keep), Permitted: uint32(keep)},
		{Effective: uint32(keep >> 32), Permitted: uint32(keep >> 32)},
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("give capabilities up: %w", err)
	}
	return nil
}

// raise makes capabilities effective again that the thread still may use.
func raise(with uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("ask for capabilities: %w", err)
	}
	data[0].Effective |= uint32(with)
	data[1].Effective |= uint32(with >> 32)
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("take capabilities up: %w", err)
	}
	return nil
}
