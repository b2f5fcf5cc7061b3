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
	// roomEvery is how often a full host disk is checked for free space.
	roomEvery = time.Second
	// roomToGoOn is the free space needed to resume a machine. With less, the guest's pending
	// writes would fill the disk again at once.
	roomToGoOn = 64 << 20
)

// awaitRoom resumes the machine after the host's disk was full. QEMU pauses a machine that writes
// to a full disk and keeps the write. awaitRoom runs until the machine ends.
func (m *machine) awaitRoom() {
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	for {
		select {
		case <-m.stopped:
		case <-m.Done():
			return
		}
		for {
			lacks, known := m.lacksRoom()
			if known && !lacks {
				break
			}
			m.full.Store(lacks)
			if lacks && m.hasRoom() {
				_ = m.tell(context.Background(), "go on", "cont") // retried if it fails
			}
			select {
			case <-tick.C:
			case <-m.Done():
				return
			}
		}
		m.full.Store(false)
	}
}

// lacksRoom reports whether QEMU has paused the machine because a disk is full, the only disk error
// for which it does. Known is false if QEMU does not answer.
func (m *machine) lacksRoom() (lacks, known bool) {
	var now struct{ Status string }
	if err := m.run.control.Do(context.Background(), "query-status", nil, &now); err != nil {
		return m.full.Load(), false
	}
	return now.Status == "io-error", true
}

// hasRoom reports whether the file systems of the machine's disks have enough space. It returns
// true if that is unknown: QEMU then pauses again if not.
func (m *machine) hasRoom() bool {
	for _, d := range m.cfg.Disks {
		var s unix.Statfs_t
		if !d.ReadOnly && unix.Statfs(d.Path, &s) == nil && s.Bavail*uint64(s.Bsize) < roomToGoOn {
			return false
		}
	}
	return true
}

func (m *machine) Stalled() error {
	if !m.full.Load() {
		return nil
	}
	return fault.Newf(fault.Unavailable, "", "", "the disk of this computer is full, so the sandbox's disk cannot grow").
		Advise(fmt.Sprintf("Free %d MiB on the disk that holds %s. The sandbox then continues by itself, without losing data.", roomToGoOn>>20, m.growing()))
}

// growing returns the path of the first writable disk.
func (m *machine) growing() string {
	for _, d := range m.cfg.Disks {
		if !d.ReadOnly {
			return d.Path
		}
	}
	return ""
}
