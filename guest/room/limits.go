//go:build linux

package room

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process"
)

// Defaults of a room's limits.
const (
	defaultWeight = 100 // the kernel's own
	defaultPids   = 512 // a build of many jobs; a fork bomb ends there
)

// defaults fills in what a spec leaves to the guest.
func (k *Keeper) defaults(l *guestpb.Limits) *guestpb.Limits {
	var st unix.Statfs_t
	_ = unix.Statfs(k.opts.Data, &st) // without it there are no blocks
	l = proto.CloneOf(l)
	if l == nil {
		l = &guestpb.Limits{}
	}
	l.CpuWeight = cmp.Or(l.CpuWeight, defaultWeight)
	l.Pids = cmp.Or(l.Pids, defaultPids)
	l.MemoryBytes = cmp.Or(l.MemoryBytes, totalMemory()/2)
	// Half, so that one agent that fills its own leaves another some.
	l.DiskBytes = cmp.Or(l.DiskBytes, st.Blocks*uint64(st.Bsize)/2)
	l.DiskFiles = cmp.Or(l.DiskFiles, st.Files/2)
	return l
}

// SetLimits changes what a room may use, while it is used.
func (k *Keeper) SetLimits(ctx context.Context, user string, l *guestpb.Limits) error {
	d, err := k.enter(ctx, user, false)
	if err != nil {
		return err
	}
	defer d.leave()
	r := d.room.Load()
	if r == nil {
		return missing(user)
	}
	spec := proto.CloneOf(r.spec)
	spec.Limits = l
	_, err = k.ensure(d, spec, r.outlet.token)
	return err
}

// limit sets the limits of a room.
func (r *Room) limit(l *guestpb.Limits) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(r.disk.Fd()), &st); err != nil {
		return err
	}
	err := errors.Join(r.group.limit(l, st.Dev), r.group.limitMemory(l.MemoryBytes))
	if r.quota {
		err = errors.Join(err, setLimits(r.disk, r.spec.Uid, l.DiskBytes, l.DiskFiles))
	}
	return err
}

// fit makes the room's file systems in memory as large as fits its limit. One that
// holds more stays as it is.
func (r *Room) fit(memory uint64) error {
	return process.InNamespaces(int(r.pidfd.Fd()), unix.CLONE_NEWNS, func() error {
		for path, size := range map[string]string{"/dev/shm": shmSize(memory), "/run": runSize(memory)} {
			f, err := unix.Fspick(unix.AT_FDCWD, path, unix.FSPICK_CLOEXEC|unix.FSPICK_SYMLINK_NOFOLLOW)
			if err != nil {
				return fmt.Errorf("size of %s: %w", path, err)
			}
			key, value, _ := strings.Cut(size, "=")
			err = unix.FsconfigSetString(f, key, value)
			if err == nil {
				err = unix.FsconfigReconfigure(f)
			}
			_ = unix.Close(f)
			if err != nil && err != unix.EINVAL {
				return fmt.Errorf("size of %s: %w", path, err)
			}
		}
		return nil
	})
}
