package engine

import (
	"io"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"osaurus-sandbox/config"
)

// Command is a program to run in a room. As with exec.Cmd, its streams are set here. A
// writer that is slow slows the command down.
type Command struct {
	// Args are the program and its arguments. A name without a slash is looked up in
	// the PATH of Env.
	Args []string
	// Env is the whole environment, as NAME=value; nil means DefaultEnv. In a
	// room it is added to that of a login.
	Env []string
	// Dir is relative to the home, or to / for Root.
	Dir string

	// RoomRoot runs the command as the room's root, to install packages.
	RoomRoot bool

	// ReadOnly makes the kernel refuse every change below Dir. It is for rooms.
	ReadOnly bool

	// Plugin, if not empty, is the plugin to which the command belongs. The bridge
	// learns it from the guest, so that no other program of the room can claim it.
	// Network is its network, and Address the plugin's, which the supervisor sets. All three are
	// for rooms.
	Plugin  config.PluginID
	Network PluginNetwork
	Address netip.Addr // of the plugin's own network

	// Terminal, if not nil, gives the command a terminal instead of pipes. Its output
	// goes to Stdout.
	Terminal *Terminal

	// Stdin is the input; nil is an empty one. A Read may still be in progress when
	// Wait returns.
	Stdin io.Reader
	// Stdout and Stderr receive the output; nil discards it. They may be the same
	// writer. If a Write fails, the command is ended.
	Stdout, Stderr io.Writer

	// Timeout, if not 0, is how long the command may run before it is ended.
	Timeout time.Duration
	// IdleTimeout, if not 0, is how long the command may run without output or input.
	IdleTimeout time.Duration
	// MaxOutput, if not 0, bounds the bytes of Stdout and of Stderr, at most
	// MaxOutputLimit: the first 40 % are written as they come, the last 60 % at the
	// end. Wait fails with Rejected if a guest sends more.
	MaxOutput uint64
	// Grace is the time between SIGTERM and SIGKILL when Timeout or the context ends
	// the command; 0 means five seconds.
	Grace time.Duration
}

// PluginNetwork is the network of a plugin's command.
type PluginNetwork string

const (
	// NetworkOfRoom is the network of the agent's other programs.
	NetworkOfRoom PluginNetwork = ""
	// NetworkOfPlugin is one of the plugin's own, which the gateway tells from the room's.
	// Without an address, it is only a loopback.
	NetworkOfPlugin PluginNetwork = "plugin"
	// NoNetwork is only a loopback of the command's own.
	NoNetwork PluginNetwork = "none"
)

// MaxOutputLimit is the largest MaxOutput, because the guest holds as much in memory.
const MaxOutputLimit = 1 << 20

// Terminal describes a command's terminal.
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
	Cause    string // why a session's shell was ended, if not by itself
	TimedOut bool   // it was ended because its Timeout was over
	Idle     bool   // it was ended because its IdleTimeout was over

	// Limits that the room reached while the command ran. OOM: a process was killed
	// for memory, or the room was stalled by lack of it at the timeout. PIDs: a process
	// could not be started. Quota: the room's disk was full at the end.
	OOM, PIDs, Quota bool
	// Bytes that MaxOutput left out.
	StdoutTruncated, StderrTruncated uint64
}

// Status returns the number that a shell would show: the code, or 128 plus the signal.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// Signal is a signal by its Linux number, on every host.
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

// OpRun is the operation of faults about a command that could not run or was lost.
const OpRun = "run command"

// Note returns which limit ended the command, if one did.
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
