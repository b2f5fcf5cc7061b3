//go:build linux

package room

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/network"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/internal/fault"
)

// begin starts the room's first process, in namespaces of its own. It builds the room in them when
// it receives a plan. Line is its standard input and output.
func (r *Room) begin(o Options) (line *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	line, theirs := os.NewFile(uintptr(pair[0]), "room"), os.NewFile(uintptr(pair[1]), "room")
	defer theirs.Close()
	r.init, err = o.Processes.Start(process.Spec{
		Args: []string{o.Program, InitCommand}, Dir: "/",
		// One thread at a time and a small heap: it mostly waits.
		Env:   []string{"GOMAXPROCS=1", "GOMEMLIMIT=8MiB", "GOTRACEBACK=none"},
		Input: theirs, Streams: [3]process.Stream{1: process.Same},
		Place:      initPlace{group(filepath.Join(o.Cgroup, inits))},
		Namespaces: entered,
	})
	if err != nil {
		_ = line.Close()
		return nil, err
	}
	pidfd, err := unix.PidfdOpen(r.init.PID(), 0)
	if err != nil || r.dead() { // the pid may have been reused
		r.init.Release()
		_ = line.Close()
		return nil, errors.Join(errors.New("the process ended"), err)
	}
	r.pidfd = os.NewFile(uintptr(pidfd), "room")
	return line, nil
}

// makePatience is how long the first process of a room may take for its mounts. No program of the
// agent runs yet, so only a disk or share can be slow.
const makePatience = 30 * time.Second

// open sends the plan to the first process and waits until the room is built.
func (r *Room) open(line *os.File, o Options) error {
	const op = "make room"
	defer line.Close()
	connected := make(chan error, 1)
	go func() { connected <- r.network(r.spec, o) }()
	err := errors.Join(r.plan(line, o), r.await(line), <-connected)
	if err != nil {
		r.init.Release()
		return fault.New(fault.Execution, op, r.spec.User, err).Advise("See the guest's console log, or run `reset` to give the agent a fresh layer.")
	}
	r.ptmx, err = os.OpenFile(fmt.Sprintf("/proc/%d/root/dev/pts/ptmx", r.init.PID()), unix.O_PATH, 0)
	if err == nil {
		r.shellDir, err = r.makeShellDir()
	}
	if err != nil || r.dead() {
		r.init.Release()
		return fault.New(fault.Execution, op, r.spec.User, errors.Join(errors.New("its first process ended"), err))
	}
	r.setTrust()
	return nil
}

// plan sends the first process its plan.
func (r *Room) plan(to io.Writer, o Options) error {
	err := json.NewEncoder(to).Encode(plan{
		User: r.spec.User, UID: r.spec.Uid, Home: r.spec.Home, Hostname: r.spec.Hostname, Memory: r.spec.Limits.MemoryBytes,
		Layer: r.layer, Upper: r.upper, Lower: r.lower, Files: r.files, Resolvers: o.Resolvers, Shim: o.Shim, Bridge: r.bridgeFiles.socket != nil,
	})
	if err != nil {
		return fmt.Errorf("send the plan to the first process: %w", err)
	}
	return nil
}

// await reads the report of the first process.
func (r *Room) await(from *os.File) error {
	_ = from.SetReadDeadline(time.Now().Add(makePatience))
	var said report
	err := json.NewDecoder(io.LimitReader(from, maxReport)).Decode(&said)
	if err != nil {
		return fmt.Errorf("wait for the first process: %w", err)
	}
	if said.Failure != "" {
		return errors.New(said.Failure)
	}
	r.shell = said.Shell
	r.lacks = append(r.lacks, said.Warnings...)
	return nil
}

// InitCommand is the argument that makes the guest program run as the first process of a room.
const InitCommand = "room-init"

// plan describes the room that the first process builds.
type plan struct {
	User     string
	UID      uint32
	Home     string
	Hostname string
	Memory   uint64   // limit in bytes
	Layer    string   // the room's own folder on the data disk
	Upper    string   // the layer that the room writes to
	Lower    []string // its frozen layers, the top one first, and the base of the guest
	Files    string   // the guest's folder for this room, in memory
	// Resolvers is the guest's resolv.conf and Shim its bridge client. Both are mounted over files
	// of the room.
	Resolvers, Shim string
	Bridge          bool // the host serves a bridge
}

// report is the first process's answer to a plan.
type report struct {
	Failure  string
	Warnings []string
	Shell    string // the user's login shell
}

const (
	// maxReport bounds the size of a report: a few warnings.
	maxReport = 16 << 10
	// maxWarnings bounds the warnings in a report.
	maxWarnings = 16
)

// Init runs the first process of a room. It reads a plan from standard input, builds the room's
// root, reports, drops its privileges and reaps orphans. It does not return.
func Init() {
	// The file system user and the capabilities belong to the thread.
	runtime.LockOSThread()
	protect()
	r := report{}
	if err := build(&r); err != nil {
		r.Failure = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil || r.Failure != "" {
		os.Exit(1)
	}
	// The manager has stopped reading.
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		for fd := range 3 {
			_ = unix.Dup3(int(null.Fd()), fd, 0)
		}
	}
	debug.FreeOSMemory() // from now on it only reaps
	reap()
}

// protect keeps signals from the room and the out-of-memory killer from ending the process.
func protect() {
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGPIPE, unix.SIGALRM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPWR, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGVTALRM, unix.SIGIO)
	taken := make(chan os.Signal, 1) // never read
	signal.Notify(taken, unix.SIGABRT, unix.SIGTRAP, unix.SIGSYS, unix.SIGSTKFLT, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0)
	// Keep the room's processes, even root, from reading this process's memory.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

func build(r *report) error {
	filter, err := refused().Compile()
	if err != nil {
		return err
	}
	if err := network.Loopback(); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	// Allow ping without privileges in this room. The kernel may lack the setting.
	_ = os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 2147483647"), 0)
	var p plan // until then this process is not tied to a room
	if err := json.NewDecoder(io.LimitReader(os.Stdin, maxReport)).Decode(&p); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	if err := unix.Sethostname([]byte(p.Hostname)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	b := &builder{plan: p, warn: func(format string, args ...any) {
		if len(r.Warnings) < maxWarnings {
			r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
		}
	}}
	if err := b.make(); err != nil {
		return err
	}
	r.Shell = b.shell
	if err := dropBounding(0); err != nil {
		return err
	}
	if err := filter.Install(true); err != nil {
		return err
	}
	return keepOnly(0)
}

// reap reaps orphans and never returns.
func reap() {
	children := make(chan os.Signal, 1) // one slot is enough: each pass reaps all
	signal.Notify(children, unix.SIGCHLD)
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if pid <= 0 && err != unix.EINTR {
			<-children
		}
	}
}
