//go:build linux

package fs

import (
	"math"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// floorAge is how old an answer about free space may be. What the guest writes
	// meanwhile is subtracted, so only others' writes can go unnoticed that long.
	floorAge = 100 * time.Millisecond
	// floorFiles is the share of all the files that a disk can have which is kept for the
	// host: a disk that has no more of them is full, however many bytes are free.
	floorFiles = 100
)

// floor keeps space free on the host.
type floor struct {
	min int64 // zero is no floor

	mu    sync.Mutex
	spare int64 // above the floor
	files int64 // likewise
	asked time.Time
}

// take refuses so many bytes and files more if the host's disk would come too close to full.
func (f *floor) take(root *descriptor, bytes, files int64) error {
	if f.min == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); f.spare < bytes || f.files < files || now.Sub(f.asked) > floorAge {
		var s unix.Statfs_t
		if err := unix.Fstatfs(root.fd, &s); err != nil {
			return err
		}
		f.spare, f.files, f.asked = availableBytes(&s)-f.min, f.spareFiles(&s), now
	}
	if f.spare < bytes || f.files < files {
		return unix.ENOSPC
	}
	f.spare, f.files = f.spare-bytes, f.files-files
	return nil
}

// spareFiles is how many files a disk can have above the floor.
func (f *floor) spareFiles(s *unix.Statfs_t) int64 {
	switch {
	case s.Files == 0: // it makes them of its bytes
		return math.MaxInt64
	case f.min == 0:
		return int64(s.Ffree)
	}
	return int64(s.Ffree) - int64(s.Files/floorFiles)
}

// availableBytes is what an ordinary user may still write.
func availableBytes(s *unix.Statfs_t) int64 { return int64(s.Bavail) * s.Frsize }
