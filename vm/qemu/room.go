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
	// roomEvery is how often it is looked whether the host's disk has room again.
	roomEvery = time.Second
	// roomToGoOn is what must be free for a machine to go on that the host's full disk has
	// stopped: less would be full again as soon as the guest has written what it kept back.
	roomToGoOn = 64 << 20
)

// awaitRoom goes with a machine from its start to its end. QEMU stops one that writes to a full
// disk of the host, and keeps what it was to write; it is told to go on once there is room.
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
				_ = m.tell(context.Background(), "go on", "cont") // if it fails, it is told again
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

// lacksRoom reports whether QEMU has stopped the machine because a disk is full: it does so for no
// other error of a disk. While it does not answer, that is not known, and what was so counts.
func (m *machine) lacksRoom() (lacks, known bool) {
	var now struct{ Status string }
	if err := m.run.control.Do(context.Background(), "query-status", nil, &now); err != nil {
		return m.full.Load(), false
	}
	return now.Status == "io-error", true
}

// hasRoom reports whether the file systems of the machine's disks have. Where that cannot be told,
// going on tells.
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
	return fault.Newf(fault.Unavailable, "", "", "the disk of this computer is full, and the sandbox's cannot grow").
		Advise(fmt.Sprintf("Make room, so that %d MiB are free where %s is: it goes on by itself then, and has lost nothing.", roomToGoOn>>20, m.growing()))
}

// growing is the first disk that the machine writes to.
func (m *machine) growing() string {
	for _, d := range m.cfg.Disks {
		if !d.ReadOnly {
			return d.Path
		}
	}
	return ""
}
