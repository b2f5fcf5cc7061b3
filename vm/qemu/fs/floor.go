//go:build linux

package fs

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// floorAge is how old an answer about free space may be. What the guest writes
// meanwhile is subtracted, so only others' writes can go unnoticed that long.
const floorAge = 100 * time.Millisecond

// floor keeps space free on the host.
type floor struct {
	min int64 // zero is no floor

	mu    sync.Mutex
	spare int64 // above the floor
	asked time.Time
}

// take refuses n bytes more if the host's disk would come too close to full.
func (f *floor) take(root *descriptor, n int64) error {
	if f.min == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); f.spare < n || now.Sub(f.asked) > floorAge {
		var s unix.Statfs_t
		if err := unix.Fstatfs(root.fd, &s); err != nil {
			return err
		}
		f.spare, f.asked = availableBytes(&s)-f.min, now
	}
	if f.spare < n {
		return unix.ENOSPC
	}
	f.spare -= n
	return nil
}

// availableBytes is what an ordinary user may still write.
func availableBytes(s *unix.Statfs_t) int64 { return int64(s.Bavail) * s.Frsize }
