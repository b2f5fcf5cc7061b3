package fault

// Exit codes of programs that end with an error of a kind. They are part of
// their interface: scripts rely on them.
const (
	ExitExecution    = 1
	ExitInvalidArgs  = 2
	ExitRejected     = 3
	ExitUserDenied   = 4
	ExitTimeout      = 5
	ExitUnavailable  = 6
	ExitNotFound     = 7
	ExitToolNotFound = 8
)

// ExitCode is the exit code for errors of the kind.
func (k Kind) ExitCode() int {
	switch k {
	case InvalidArgs:
		return ExitInvalidArgs
	case Rejected:
		return ExitRejected
	case UserDenied:
		return ExitUserDenied
	case Timeout:
		return ExitTimeout
	case Unavailable:
		return ExitUnavailable
	case NotFound:
		return ExitNotFound
	case ToolNotFound:
		return ExitToolNotFound
	}
	return ExitExecution
}
