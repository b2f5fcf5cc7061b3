//go:build linux

// Package room makes the rooms of agents: for each a user, a root, namespaces, limits and a filter of system calls, in which its commands run.
package room

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/fault/faultrpc"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/internal/wire"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/sandbox/seccomp"
)

// makePatience is how long the first process of a room may need for its mounts.
// Nothing of an agent runs before, so only the disk or a share can make it slow.
const makePatience = 30 * time.Second

// Room is one that is there, or was: Dead says so. The descriptors that commands
// use are closed when nobody holds it any more.
type Room struct {
	spec   *guestpb.Room
	layer  string // its folder on the data disk
	files  string // its folder among the guest's own, in memory
	outlet outlet
	disk   *os.File
	group  group
	slot   int
	filter seccomp.Program
	init   *process.Child
	pidfd  *os.File // of its first process
	ptmx   *os.File // O_PATH
	desk   *os.File // O_PATH
	memory *os.File // memory.events of the group
	pids   *os.File // pids.events
	shell  string
	made   time.Time
	quota  bool // the disk counts
	anew   bool // its layer was begun on another base, and is gone
	lacks  []string
	starts chan struct{} // one for each start that may be under way

	unsettled bool // its network may be another than the spec's
}

// Place is where a command of the room runs: as its agent, or as its root.
func (r *Room) Place(root bool) process.Place { return place{room: r, root: root} }

// HiddenPlace is Place for a program of the guest's own that runs as the room's agent:
// it sees what the agent does and may no more, and the agent's processes do not see it.
func (r *Room) HiddenPlace() process.Place { return place{room: r, hidden: true} }

// maxStarts is how many commands of one room are being started at once. The rest
// of a crowd waits its turn, and leaves the guest's first process free to answer.
const maxStarts = 4

// Admit waits until one more command of the room may be started. When it has
// been, release must be called.
func (r *Room) Admit(ctx context.Context) (release func(), err error) {
	select {
	case r.starts <- struct{}{}:
		return func() { <-r.starts }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// User is the Linux user of the room's agent.
func (r *Room) User() string { return r.spec.User }

// Dead is closed when the room's first process has ended, and with it all
// others in it.
func (r *Room) Dead() <-chan struct{} { return r.init.Done() }

func (r *Room) dead() bool {
	select {
	case <-r.Dead():
		return true
	default:
		return false
	}
}

// Home is the agent's home, in the room and in the guest.
func (r *Room) Home() string { return r.spec.Home }

// Environment is that of a login, of the agent or of the room's root.
func (r *Room) Environment(root bool) []string {
	user, home, path := r.spec.User, r.spec.Home, r.spec.Home+"/.local/bin:"+wire.SystemPath
	if root {
		user, home, path = "root", wire.RootHome, wire.SystemPath
	}
	return []string{"HOME=" + home, "USER=" + user, "LOGNAME=" + user, "SHELL=" + r.shell, "PATH=" + path, "LANG=C.UTF-8"}
}

// start starts the first process of the room and waits until the root is made.
func (r *Room) start(o Options) error {
	const op = "make room"
	in, err := r.plan(o)
	if err != nil {
		return fault.New(fault.Execution, op, r.spec.User, err)
	}
	defer in.Close()
	out, theirs, err := os.Pipe()
	if err != nil {
		return fault.New(fault.Unavailable, op, r.spec.User, err)
	}
	defer out.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		defer null.Close()
		r.init, err = o.Keeper.Start(process.Spec{
			Args: []string{o.Program, InitCommand}, Dir: "/",
			// One thread at a time and a small heap: it waits, and little else.
			Env:        []string{"GOMAXPROCS=1", "GOMEMLIMIT=8MiB", "GOTRACEBACK=none"},
			Files:      [3]uintptr{in.Fd(), theirs.Fd(), null.Fd()},
			Place:      threshold{group(filepath.Join(o.Cgroup, inits))},
			Namespaces: entered,
		})
	}
	_ = theirs.Close()
	if err != nil {
		return err
	}
	if err := r.hold(); err != nil {
		r.init.Release()
		return fault.New(fault.Execution, op, r.spec.User, err)
	}
	connected := make(chan error, 1)
	go func() { connected <- r.network(r.spec, o) }()
	err = r.await(out)
	if failed := <-connected; err == nil {
		err = failed
	}
	if err != nil {
		r.init.Release()
		return fault.New(fault.Execution, op, r.spec.User, err).Advise("Look at the guest's console log; `reset` gives the agent a fresh layer.")
	}
	r.ptmx, err = os.OpenFile(fmt.Sprintf("/proc/%d/root/dev/pts/ptmx", r.init.PID()), unix.O_PATH, 0)
	if err == nil {
		r.desk, err = r.makeDesk()
	}
	if err != nil || r.dead() {
		r.init.Release()
		return fault.New(fault.Execution, op, r.spec.User, errors.Join(errors.New("its first process ended"), err))
	}
	return nil
}

// desk is where the guest's own files for a room's shells are, in the room's memory.
const desk = "/run/osaurus-shells"

// makeDesk makes that folder. Nothing of the agent has run in the room yet, so the
// path is what the first process has made.
func (r *Room) makeDesk() (*os.File, error) {
	path := fmt.Sprintf("/proc/%d/root%s", r.init.PID(), desk)
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// Desk opens a folder that is root's, that only this room sees, and that lies in
// memory. It also returns its path in the room.
func (r *Room) Desk() (*os.File, string, error) {
	fd, err := unix.FcntlInt(r.desk.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, "", fault.New(fault.Unavailable, "open the room's folder for shells", r.spec.User, err)
	}
	return os.NewFile(uintptr(fd), desk), desk, nil
}

// jobLogs is where a room shows what its jobs write.
const jobLogs = "/run/osaurus-jobs"

// JobLogs is the folder for what jobs of the room write, in the guest and in the
// room. Nobody in the room can write there, nor lay a link.
func (r *Room) JobLogs() (path, inside string) { return filepath.Join(r.layer, "jobs"), jobLogs }

// plan is a file with what the first process is to make.
func (r *Room) plan(o Options) (*os.File, error) {
	text, err := json.Marshal(plan{
		User: r.spec.User, UID: r.spec.Uid, Home: r.spec.Home, Hostname: r.spec.Hostname, Memory: r.spec.Limits.MemoryBytes,
		Base: o.Base, Layer: r.layer, Files: r.files, Resolvers: o.Resolvers, Shim: o.Shim, Outlet: r.outlet.socket != nil,
	})
	if err != nil {
		return nil, err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if _, err := out.Write(text); err != nil { // a pipe holds more than the plan has
		_ = in.Close()
		return nil, err
	}
	return in, nil
}

// hold takes hold of the first process itself, whatever becomes of its pid.
func (r *Room) hold() error {
	fd, err := unix.PidfdOpen(r.init.PID(), 0)
	if err != nil {
		return fmt.Errorf("hold the first process: %w", err)
	}
	r.pidfd = os.NewFile(uintptr(fd), "room")
	if r.dead() { // then the pid may have been another's
		return errors.New("its first process ended")
	}
	return nil
}

// await reads what the first process reports.
func (r *Room) await(out *os.File) error {
	_ = out.SetReadDeadline(time.Now().Add(makePatience))
	text, err := io.ReadAll(io.LimitReader(newLine(out), maxReport))
	if err != nil {
		return fmt.Errorf("wait for its first process: %w", err)
	}
	var said report
	if err := json.Unmarshal(bytes.TrimSpace(text), &said); err != nil {
		return fmt.Errorf("its first process said %q", faultrpc.Clip(string(text)))
	}
	if said.Failure != "" {
		return errors.New(said.Failure)
	}
	r.shell = said.Shell
	r.lacks = append(r.lacks, said.Warnings...)
	return nil
}

// network gives the room the network that is asked for, instead of the one that it has.
func (r *Room) network(spec *guestpb.Room, o Options) error {
	if err := disconnect(r.slot); err != nil || spec.Network == guestpb.Room_NETWORK_NONE {
		return err
	}
	<-o.Late // the modules
	if err := connect(r.slot, address(r.slot, spec.HostServices), r.init.PID(), int(r.pidfd.Fd())); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	return nil
}

// usage is what the room uses.
func (r *Room) usage() *guestpb.RoomUsage {
	statistic := func(name string) uint64 {
		return group("/sys/class/net/" + cable(r.slot) + "/statistics").number(name)
	}
	u := &guestpb.RoomUsage{
		User:     r.spec.User,
		CpuNanos: int64(value(r.group.text("cpu.stat"), "usage_usec")) * int64(time.Microsecond), MemoryBytes: r.group.number("memory.current"),
		MemoryPeakBytes: r.group.number("memory.peak"), Pids: uint32(r.group.number("pids.current")),
		// What the guest's end of the cable sends, the room receives.
		ReceivedBytes: statistic("tx_bytes"), SentBytes: statistic("rx_bytes"),
		OomKills: value(r.group.text("memory.events"), "oom_kill"),
		Limits:   r.spec.Limits, MadeUnixNano: r.made.UnixNano(),
	}
	if r.quota {
		if q, err := held(r.disk, r.spec.Uid); err == nil {
			u.DiskBytes, u.DiskFiles = q.space, q.files
		}
	}
	return u
}

// Marks are how often a room has met its limits.
type Marks struct{ oom, pids uint64 }

// Marks are taken before a command and compared after it.
func (r *Room) Marks() Marks {
	return Marks{value(again(r.memory), "oom_kill"), value(again(r.pids), "max")}
}

// again reads a small file of the kernel from its beginning.
func again(f *os.File) string {
	var buf [512]byte // a few counters
	n, _ := f.ReadAt(buf[:], 0)
	return string(buf[:n])
}

// Met says which limits the room has met since the marks were taken: of memory
// (and a process was killed) and of processes (and one was not started); and
// whether it is now at that of its disk.
func (r *Room) Met(since Marks) (oom, pids, quota bool) {
	now := r.Marks()
	if r.quota {
		q, err := held(r.disk, r.spec.Uid)
		quota = err == nil && q.atLimit()
	}
	return now.oom > since.oom, now.pids > since.pids, quota
}

// Starved reports whether the room stands still for want of memory: it is at its
// limit, and the kernel drops what a program needs next instead of killing it.
func (r *Room) Starved() bool {
	const fullParts, standstill = 50, 10.0 // of its memory; hundredths of the last 10 s
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

// line reads to the end of a line, and no further.
type line struct {
	from io.Reader
	done bool
}

func newLine(from io.Reader) io.Reader { return &line{from: from} }

func (l *line) Read(b []byte) (int, error) {
	if l.done {
		return 0, io.EOF
	}
	n, err := l.from.Read(b)
	l.done = bytes.IndexByte(b[:n], '\n') >= 0
	return n, err
}
