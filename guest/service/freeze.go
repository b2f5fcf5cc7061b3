//go:build linux

package service

import (
	"context"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/fault"
)

const (
	// maxFrozen bounds the time in which nobody can write to the data disk.
	maxFrozen = time.Minute
	// The requests of linux/fs.h.
	fiFreeze, fiThaw = 0xc0045877, 0xc0045878
)

// freezing is the state of the data disk.
type freezing struct {
	dir string // where the disk is mounted

	mu   sync.Mutex
	disk *os.File // while it is frozen
	end  *time.Timer
}

// Freeze freezes the data disk.
func (s *Service) Freeze(_ context.Context, r *guestpb.FreezeRequest) (*guestpb.FreezeResponse, error) {
	const op = "freeze disk"
	f := &s.freezing
	f.mu.Lock()
	defer f.mu.Unlock()
	within := time.Duration(r.WithinNanos)
	if within <= 0 || within > maxFrozen {
		return nil, fault.Newf(fault.InvalidArgs, op, "", "%v is not between 0 and %v", within, maxFrozen)
	}
	if f.disk != nil {
		return nil, fault.Newf(fault.Rejected, op, "", "it is frozen already")
	}
	disk, err := os.Open(f.dir)
	if err == nil {
		if err = unix.IoctlSetInt(int(disk.Fd()), fiFreeze, 0); err != nil {
			_ = disk.Close()
		}
	}
	if err != nil {
		return nil, fault.New(fault.Execution, op, f.dir, err)
	}
	f.disk, f.end = disk, time.AfterFunc(within, func() { _ = f.thaw(disk) })
	return &guestpb.FreezeResponse{}, nil
}

// Thaw thaws the data disk.
func (s *Service) Thaw(context.Context, *guestpb.ThawRequest) (*guestpb.ThawResponse, error) {
	f := &s.freezing
	f.mu.Lock()
	disk := f.disk
	f.mu.Unlock()
	return &guestpb.ThawResponse{}, f.thaw(disk)
}

// thaw ends the freeze that a disk was opened for.
func (f *freezing) thaw(disk *os.File) error {
	const op = "thaw disk"
	f.mu.Lock()
	defer f.mu.Unlock()
	if disk == nil || f.disk != disk {
		return fault.Newf(fault.Timeout, op, "", "it is not frozen any more")
	}
	f.end.Stop()
	err := unix.IoctlSetInt(int(disk.Fd()), fiThaw, 0)
	_ = disk.Close()
	f.disk = nil
	if err != nil {
		return fault.New(fault.Execution, op, f.dir, err)
	}
	return nil
}
