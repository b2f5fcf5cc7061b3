//go:build linux

package service

import (
	"context"
	"os"
	"time"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/fault"
)

const (
	// maxFrozen bounds the time in which nobody can write to the data disk.
	maxFrozen = time.Minute
	// The requests of linux/fs.h.
	fiFreeze, fiThaw = 0xc0045877, 0xc0045878
)

// Freeze freezes the data disk, or thaws it. The kernel refuses what has been done already.
func (s *Service) Freeze(_ context.Context, r *guestpb.FreezeRequest) (*guestpb.FreezeResponse, error) {
	within := min(time.Duration(r.WithinNanos), maxFrozen)
	disk, err := os.Open(s.data)
	if err != nil {
		return nil, fault.New(fault.Execution, "freeze disk", s.data, err)
	}
	defer disk.Close()
	s.freezing.Lock()
	defer s.freezing.Unlock()
	if within > 0 {
		if err := s.ioctl(int(disk.Fd()), fiFreeze, 0); err != nil {
			return nil, fault.New(fault.Execution, "freeze disk", s.data, err)
		}
		s.thaw = time.AfterFunc(within, func() { _, _ = s.Freeze(context.Background(), &guestpb.FreezeRequest{}) })
		return &guestpb.FreezeResponse{}, nil
	}
	if s.thaw != nil {
		s.thaw.Stop()
	}
	if err := s.ioctl(int(disk.Fd()), fiThaw, 0); err != nil {
		return nil, fault.Newf(fault.Timeout, "thaw disk", s.data, "it is not frozen any more: %w", err)
	}
	return &guestpb.FreezeResponse{}, nil
}
