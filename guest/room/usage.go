//go:build linux

package room

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/network"
)

// Usage returns the resource usage of a user's room, or of all rooms.
func (m *Manager) Usage(_ context.Context, q *guestpb.UsageRequest) (*guestpb.UsageResponse, error) {
	list, err := m.rooms(q.User)
	a := &guestpb.UsageResponse{}
	for _, r := range list {
		a.Rooms = append(a.Rooms, r.usage())
	}
	return a, err
}

// openEvents opens the event counters that marks reads for each command.
func (r *Room) openEvents() (err error) {
	if r.memory, err = os.Open(filepath.Join(string(r.group), "memory.events")); err != nil {
		return err
	}
	r.pids, err = os.Open(filepath.Join(string(r.group), "pids.events"))
	return err
}

// usage returns the room's resource usage.
func (r *Room) usage() *guestpb.RoomUsage {
	statistic := func(name string) uint64 {
		return group("/sys/class/net/" + network.RoomCable(r.spec.Uid) + "/statistics").number(name)
	}
	u := &guestpb.RoomUsage{
		User:     r.spec.User,
		CpuNanos: int64(value(r.group.text("cpu.stat"), "usage_usec")) * int64(time.Microsecond), MemoryBytes: r.group.number("memory.current"),
		MemoryPeakBytes: r.group.number("memory.peak"), Pids: uint32(r.group.number("pids.current")),
		// The counters are those of the guest's end: what it sends, the room receives.
		ReceivedBytes: statistic("tx_bytes"), SentBytes: statistic("rx_bytes"),
		OomKills: value(r.group.text("memory.events"), "oom_kill"),
		Limits:   r.spec.Limits, MadeUnixNano: r.made.UnixNano(),
	}
	if q, err := quotaOf(r.disk, r.spec.Uid); err == nil { // fails if the room was removed meanwhile
		u.DiskBytes, u.DiskFiles = q.space, q.files
	}
	return u
}

// marks counts how often a room has met its limits.
type marks struct{ kills, ooms, pids uint64 }

func (r *Room) marks() marks {
	memory := reread(r.memory)
	return marks{value(memory, "oom_kill"), value(memory, "oom"), value(reread(r.pids), "max")}
}

// reread reads an open kernel file again from its beginning.
func reread(f *os.File) string {
	var buf [512]byte // a few counters
	n, _ := f.ReadAt(buf[:], 0)
	return string(buf[:n])
}

// Watch returns a function that reports which limits the room has met since: oom if a process was
// killed for lack of memory, pids if one could not be started. Quota reports that its disk is full
// then. Killed tells it that the command ended by SIGKILL.
func (r *Room) Watch() func(killed bool) (oom, pids, quota bool) {
	since := r.marks()
	return func(killed bool) (oom, pids, quota bool) {
		now := r.marks()
		// A command that is killed before its execve still shares PID 1's memory, and the kernel counts
		// the kill there.
		oom = now.kills > since.kills || killed && now.ooms > since.ooms
		q, err := quotaOf(r.disk, r.spec.Uid)
		return oom, now.pids > since.pids, err == nil && q.atLimit()
	}
}

// Starved reports whether the room is stalled by lack of memory: it is at its limit, and the kernel
// keeps evicting pages that programs need instead of killing one.
func (r *Room) Starved() bool {
	const fullParts, standstill = 50, 10.0 // 1/50 of the memory; percent of the last 10 s
	limit := r.group.number("memory.max")
	if limit == 0 || r.group.number("memory.current") < limit-limit/fullParts {
		return false
	}
	for line := range strings.Lines(r.group.text("memory.pressure")) {
		var average float64
		if n, _ := fmt.Sscanf(line, "full avg10=%f", &average); n == 1 {
			return average >= standstill
		}
	}
	return false
}
