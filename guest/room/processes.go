//go:build linux

package room

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
)

const (
	// maxProcesses and maxCommand keep the list within one message.
	maxProcesses = 2000
	maxCommand   = 256
	// maxOpen and maxOpenPath bound what is listed of a process's open files, for the same reason.
	maxOpen, maxOpenPath = 16, 1024
	// maxFiles bounds how many descriptors of a process are looked at.
	maxFiles = 4096
	// commandsWithin bounds how long a list waits for command lines. Reading one takes a lock that
	// a program which is short of memory can hold for long.
	commandsWithin = time.Second
	// ticks is the kernel's USER_HZ, the unit of times in /proc.
	ticks = 100
)

// Processes lists the processes of a user's room, or of all rooms, and what they have open in a
// folder of their room unless that is "".
func (m *Manager) Processes(_ context.Context, q *guestpb.ProcessesRequest) (*guestpb.ProcessesResponse, error) {
	rooms, err := m.rooms(q.User)
	a := &guestpb.ProcessesResponse{}
	booted := bootTime()
	var filled sync.WaitGroup
	for _, r := range rooms {
		first := len(a.Processes)
		for _, pid := range r.group.processes() {
			if len(a.Processes) == maxProcesses {
				a.Truncated = true
				break
			}
			if p := describe(pid, booted); p != nil {
				p.User = r.spec.User
				if q.Folder != "" {
					p.Open = openIn(p.Pid, q.Folder)
				}
				a.Processes = append(a.Processes, p)
			}
		}
		of := a.Processes[first:]
		filled.Go(func() { r.lines.fill(of, commandsWithin) })
	}
	filled.Wait()
	return a, err
}

// commandLines reads the command lines of a room's processes, for one list at a time, so that a
// hanging read blocks only one thread per room.
type commandLines struct {
	turn chan struct{} // a lock
	read func(pid int32) []byte
}

func newCommandLines() commandLines {
	return commandLines{make(chan struct{}, 1), commandLine}
}

// fill sets the command lines that can be read in time. The other processes keep their names.
func (c commandLines) fill(list []*guestpb.RoomProcess, within time.Duration) {
	late := time.After(within)
	select {
	case c.turn <- struct{}{}:
	case <-late:
		return
	}
	list = slices.DeleteFunc(slices.Clone(list), func(p *guestpb.RoomProcess) bool { return p.State == waiting })
	lines := make(chan []byte, len(list))
	go func() {
		defer func() { <-c.turn }()
		for _, p := range list {
			lines <- c.read(p.Pid)
		}
	}()
	for _, p := range list {
		select {
		case text := <-lines:
			if len(text) > 0 {
				p.Command = text
			}
		case <-late:
			return
		}
	}
}

// waiting is the state of a process in uninterruptible sleep, which may hold that lock.
const waiting = "D"

// processes returns the pids in the child groups, in the guest's pid namespace.
func (g group) processes() []int {
	var pids []int
	groups, _ := filepath.Glob(filepath.Join(string(g), "*", "cgroup.procs"))
	for _, path := range groups {
		text, _ := os.ReadFile(path)
		for word := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// describe returns a process's details from /proc, or nil if it has ended.
func describe(pid int, booted time.Time) *guestpb.RoomProcess {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	p := parseStat(string(stat), booted)
	if p == nil {
		return nil
	}
	p.Pid = int32(pid)
	return p
}

// openIn returns the files in a folder of its room that a process has open, and its working directory
// if it is there.
func openIn(pid int32, folder string) (open [][]byte) {
	links := []string{"cwd"}
	if dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid)); err == nil {
		names, _ := dir.Readdirnames(maxFiles)
		dir.Close()
		for _, name := range names {
			links = append(links, "fd/"+name)
		}
	}
	for _, link := range links {
		path, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, link))
		inside := path == folder || strings.HasPrefix(path, folder+"/")
		if err == nil && inside && len(path) <= maxOpenPath && len(open) < maxOpen {
			open = append(open, []byte(path))
		}
	}
	return open
}

// commandLine returns a process's command line, or nil if it has none or has ended.
func commandLine(pid int32) []byte {
	f, err := os.Open(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil
	}
	defer f.Close()
	buf := make([]byte, maxCommand)
	n, _ := f.Read(buf)
	return bytes.ReplaceAll(bytes.TrimRight(buf[:n], "\x00"), []byte{0}, []byte{' '})
}

// parseStat parses a line of /proc/PID/stat. A process chooses its own name, so fields are counted
// from the last parenthesis.
func parseStat(line string, booted time.Time) *guestpb.RoomProcess {
	first, last := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if first < 0 || last < first {
		return nil
	}
	// Positions after the name of fields 3, 4, 14, 15, 22 and 24 of proc(5).
	const state, ppid, utime, stime, start, rss = 0, 1, 11, 12, 19, 21
	f := strings.Fields(line[last+1:])
	if len(f) <= rss {
		return nil
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(f[i], 10, 64)
		return n
	}
	const tick = time.Second / ticks
	return &guestpb.RoomProcess{
		Ppid: int32(number(ppid)), Command: []byte("[" + line[first+1:last] + "]"), State: f[state],
		CpuNanos:        (number(utime) + number(stime)) * int64(tick),
		ResidentBytes:   uint64(number(rss)) * uint64(os.Getpagesize()),
		StartedUnixNano: booted.Add(time.Duration(number(start)) * tick).UnixNano(),
	}
}

// bootTime returns the time at which the kernel booted.
func bootTime() time.Time {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Now().Add(-time.Duration(ts.Nano()))
}
