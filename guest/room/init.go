//go:build linux

package room

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/network"
)

// InitCommand is the argument with which the guest program becomes the first
// process of a room.
const InitCommand = "room-init"

// plan is what the first process of a room is told to make.
type plan struct {
	User     string
	UID      uint32
	Home     string
	Hostname string
	Memory   uint64 // the limit of the room
	Base     string // the read-only base of the guest
	Layer    string // the room's own folder on the data disk
	Files    string // the room's folder among the guest's own
	// Resolvers is the guest's file of name servers, Shim its program that asks the
	// bridge; either lies over one of the room.
	Resolvers, Shim string
	Outlet          bool // there is a way to the bridge
}

// report is what it says when it has, or could not.
type report struct {
	Failure  string
	Warnings []string
	Shell    string // the user's login shell
}

const (
	// maxReport bounds what is read of it: a few warnings.
	maxReport = 16 << 10
	// maxWarnings is more than there are things to warn of.
	maxWarnings = 16
)

// Init is the life of the first process of a room: it makes the room's root, as
// its standard input says, reports, gives everything up, and reaps. It does not
// return.
func Init() {
	// What threads have of their own (their user for files, capabilities) is
	// this one's until all is made.
	runtime.LockOSThread()
	shield()
	r := report{}
	if err := build(&r); err != nil {
		r.Failure = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil || r.Failure != "" {
		os.Exit(1)
	}
	// Nobody reads it any more.
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		for fd := range 3 {
			_ = unix.Dup3(int(null.Fd()), fd, 0)
		}
	}
	debug.FreeOSMemory() // what making took; from now on it waits
	reap()
}

// shield keeps the process from ending by what others in the room may send,
// and the out-of-memory killer from choosing it.
func shield() {
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGPIPE, unix.SIGALRM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPWR, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGVTALRM, unix.SIGIO)
	taken := make(chan os.Signal, 1) // nobody reads it
	signal.Notify(taken, unix.SIGABRT, unix.SIGTRAP, unix.SIGSYS, unix.SIGSTKFLT, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0)
	// Nobody in the room looks into it, not even the room's root.
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
	// Of this room's network alone: ping needs no privilege. A kernel without it is fine.
	_ = os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 2147483647"), 0)
	var p plan // until it comes, this is any room's first process
	if err := json.NewDecoder(io.LimitReader(os.Stdin, maxReport)).Decode(&p); err != nil {
		return fmt.Errorf("read what to make: %w", err)
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
	if err := bound(0); err != nil {
		return err
	}
	if err := filter.Install(true); err != nil {
		return err
	}
	return hold(0)
}

// reap takes in what lost its parent, for ever.
func reap() {
	children := make(chan os.Signal, 1) // one slot is enough: each look sees everything
	signal.Notify(children, unix.SIGCHLD)
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if pid <= 0 && err != unix.EINTR {
			<-children
		}
	}
}
