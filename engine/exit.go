package engine

import (
	"context"
	"strconv"
)

// Process is a command that runs in a room: a *Process, or what stands for one
// at the end of another connection.
type Process interface {
	Signal(ctx context.Context, s Signal) error
	Done() <-chan struct{}
	Wait() (Exit, error)
}

// Note says which limit ended a command, if one did.
func (e Exit) Note() string {
	if e.OOM {
		return "it was at its agent's limit of memory"
	}
	return ""
}

// Name is a signal as kill -l names it.
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
