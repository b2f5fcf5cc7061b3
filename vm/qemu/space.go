//go:build linux

package qemu

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

const (
	// spaceEvery is how often a full host disk is checked for free space.
	spaceEvery = time.Second
	// spaceToResume is the free space needed to resume a machine. With less, the guest's pending
	// writes would fill the disk again at once.
	spaceToResume = 64 << 20
)

// awaitSpace resumes the machine when the host's disk has space again. QEMU pauses a machine that
// writes to a full disk, and keeps the write.
func (m *machine) awaitSpace() {
	for {
		select {
		case <-m.Done():
			return
		case <-time.After(spaceEvery):
		}
		if !m.hasSpace() {
			continue
		}
		m.full.Store(false) // first, since the disk may be full again at once
		if m.run.control.Do(context.Background(), "cont") == nil {
			return
		}
		m.full.Store(true)
	}
}

// hasSpace reports whether the file systems of the machine's disks have enough space. It returns
// true if that is unknown: QEMU then pauses again if not.
func (m *machine) hasSpace() bool {
	for _, d := range m.cfg.Disks {
		var s unix.Statfs_t
		if !d.ReadOnly && unix.Statfs(d.Path, &s) == nil && s.Bavail*uint64(s.Bsize) < spaceToResume {
			return false
		}
	}
	return true
}

func (m *machine) Stalled() error {
	if !m.full.Load() {
		return nil
	}
	disk := ""
	for _, d := range m.cfg.Disks {
		if disk == "" && !d.ReadOnly {
			disk = d.Path
		}
	}
	return fault.Newf(fault.Unavailable, "", "", "the disk of this computer is full, so the sandbox's disk cannot grow").
		Advise(fmt.Sprintf("Free %d MiB on the disk that holds %s. The sandbox then continues by itself, without losing data.", spaceToResume>>20, disk))
}
