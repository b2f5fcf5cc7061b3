package fs

import (
	"math"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// floorAge is how long a statfs result is used. The guest's writes meanwhile are subtracted, so
	// only other programs' writes go unnoticed.
	floorAge = 100 * time.Millisecond
	// floorFiles is the fraction (1/100) of a disk's inodes that is kept free for the host. A disk
	// without free inodes is full even if bytes are free.
	floorFiles = 100
)

// floor keeps space free on the host.
type floor struct {
	min int64 // zero for no floor

	mu    sync.Mutex
	spare int64 // above the floor
	files int64 // likewise
	asked time.Time
}

// take fails if bytes and files more would take the host's disk below the floor.
func (f *floor) take(root *descriptor, bytes, files int64) error {
	if f.min == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); f.spare < bytes || f.files < files || now.Sub(f.asked) > floorAge {
		s, err := root.space()
		if err != nil {
			return err
		}
		f.spare, f.files, f.asked = s.availableBytes()-f.min, f.spareFiles(&s), now
	}
	if f.spare < bytes || f.files < files {
		return unix.ENOSPC
	}
	f.spare, f.files = f.spare-bytes, f.files-files
	return nil
}

// spareFiles is how many files a disk can have free bytes above the floor.
func (f *floor) spareFiles(s *diskSpace) int64 {
	switch {
	case s.files == 0:
		return math.MaxInt64
	case f.min == 0:
		return int64(s.freeFiles)
	}
	return int64(s.freeFiles) - int64(s.files/floorFiles)
}
