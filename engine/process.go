package engine

import (
	"io"
	"strconv"
	"syscall"
	"time"

	"osaurus-sandbox/config"
)

// Command is a program to run in a room. Like exec.Cmd, it says where its
// streams go; the command is slowed down to the speed at which they are written.
type Command struct {
	// Args are the program and its arguments. A program without a slash is
	// looked for in the PATH of Env.
	Args []string
	// Env is the whole environment, as NAME=value; nil means DefaultEnv. In a
	// room it is added to that of a login.
	Env []string
	// Dir is relative to the home, or to / for Root.
	Dir string

	// RoomRoot runs the command as the room's root, to install packages.
	RoomRoot bool

	// ReadOnly has the guest's kernel refuse every change below Dir. It is for
	// rooms.
	ReadOnly bool

	// Plugin, if not empty, is the plugin that the command is of: the bridge is told
	// so, and no other program of the room can claim it. Offline is for a plugin that
	// may reach no network. Both are for rooms.
	Plugin  config.PluginID
	Offline bool

	// Terminal, if not nil, gives the command one instead of pipes. What it
	// shows goes to Stdout.
	Terminal *Terminal

	// Stdin may be nil: the command then reads nothing. A Read of it may
	// still be under way when Wait returns.
	Stdin io.Reader
	// Stdout and Stderr may be nil, which discards in the guest. They are
	// written by one goroutine, so they may be the same. If a Write fails, the
	// command is ended.
	Stdout, Stderr io.Writer

	// Timeout, if not 0, is how long the command may run. The guest itself
	// then ends it.
	Timeout time.Duration
	// IdleTimeout, if not 0, is how long the command may neither write nor be
	// written to.
	IdleTimeout time.Duration
	// MaxOutput, if not 0, bounds what Stdout and Stderr get each, up to
	// MaxOutputLimit: the first 40 % as they come, and at the end the last 60 %.
	// With a guest that sends more, Wait fails with Rejected.
	MaxOutput uint64
	// Grace is how long the command may live on after SIGTERM when it is ended
	// (by Timeout, or by its context); 0 means five seconds.
	Grace time.Duration
}

// MaxOutputLimit is the largest MaxOutput. Beyond it, the guest would hold too
// much: who wants more bounds it where it is written.
const MaxOutputLimit = 1 << 20

// Terminal is what a command finds when it asks for its own.
type Terminal struct {
	Size TerminalSize
	Term string // the variable TERM; empty means xterm-256color
}

// TerminalSize is in characters.
type TerminalSize struct{ Rows, Cols uint16 }

// Exit is how a command ended.
type Exit struct {
	Code     int    // its exit code, unless a signal ended it
	Signal   Signal // the signal that ended it, or 0
	TimedOut bool   // it was ended because its Timeout was over
	Idle     bool   // it was ended because its IdleTimeout was over

	// While it ran, its room was at a limit. OOM: a process was killed for memory,
	// or the room stood still for want of it when the time was over. PIDs: a process
	// could not be started. Quota: at the end, the room's disk was full.
	OOM, PIDs, Quota bool
	// Bytes that MaxOutput left out.
	StdoutTruncated, StderrTruncated uint64
}

// Status is the one number that a shell would show: 128 plus the signal, or
// the code.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// Signal is a signal by its Linux number, whatever the host is.
type Signal int

const (
	SIGHUP   Signal = 1
	SIGINT   Signal = 2
	SIGQUIT  Signal = 3
	SIGKILL  Signal = 9
	SIGUSR1  Signal = 10
	SIGUSR2  Signal = 12
	SIGTERM  Signal = 15
	SIGCONT  Signal = 18
	SIGSTOP  Signal = 19
	SIGTSTP  Signal = 20
	SIGWINCH Signal = 28
)

func (s Signal) String() string { return "signal " + strconv.Itoa(int(s)) }

// HostSignal translates a signal of this host; it returns 0 for one that Linux does not have.
func HostSignal(s syscall.Signal) Signal {
	return map[syscall.Signal]Signal{
		syscall.SIGHUP: SIGHUP, syscall.SIGINT: SIGINT, syscall.SIGQUIT: SIGQUIT, syscall.SIGKILL: SIGKILL,
		syscall.SIGILL: 4, syscall.SIGTRAP: 5, syscall.SIGABRT: 6, syscall.SIGBUS: 7, syscall.SIGFPE: 8, syscall.SIGSEGV: 11,
		syscall.SIGPIPE: 13, syscall.SIGALRM: 14, syscall.SIGXCPU: 24, syscall.SIGXFSZ: 25, syscall.SIGSYS: 31, syscall.SIGUSR1: SIGUSR1, syscall.SIGUSR2: SIGUSR2, syscall.SIGTERM: SIGTERM, syscall.SIGCONT: SIGCONT,
		syscall.SIGSTOP: SIGSTOP, syscall.SIGTSTP: SIGTSTP, syscall.SIGWINCH: SIGWINCH,
	}[s]
}

// OpRun is what was being done, by a fault's word, where a guest would not run a command or its
// end is not known.
const OpRun = "run command"

// Note says which limit ended the command, if one did.
func (e Exit) Note() string {
	if e.OOM {
		return "it reached its agent's limit of memory"
	}
	return ""
}

// Name returns the signal's name as in kill -l.
func (s Signal) Name() string {
	names := []string{
		"", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM", "STKFLT",
		"CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
	}
	if int(s) < len(names) {
		return names[s]
	}
	return strconv.Itoa(int(s))
}
