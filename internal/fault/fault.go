// Package fault defines the project's error type: operation, subject, cause, kind, and advice.
package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Kind says what sort of failure an error is. The list is closed: it crosses
// the wire, and exit codes, HTTP statuses and tool envelopes are derived from it.
type Kind string

const (
	InvalidArgs  Kind = "invalid_args"    // the request itself is wrong; the same request will fail again
	Rejected     Kind = "rejected"        // a policy, a limit or a failed check forbids it
	UserDenied   Kind = "user_denied"     // a person said no
	Timeout      Kind = "timeout"         // it did not answer within its deadline
	Execution    Kind = "execution_error" // it was tried and went wrong
	Unavailable  Kind = "unavailable"     // what is needed for it is not there (yet)
	NotFound     Kind = "not_found"       // what was named does not exist
	ToolNotFound Kind = "tool_not_found"  // no such tool
)

// Kinds lists all kinds in the order of their declaration.
func Kinds() []Kind {
	return []Kind{InvalidArgs, Rejected, UserDenied, Timeout, Execution, Unavailable, NotFound, ToolNotFound}
}

// Exit codes of programs that end with an error of a kind. Scripts rely on them.
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

var exitCodes = map[Kind]int{
	InvalidArgs: ExitInvalidArgs, Rejected: ExitRejected, UserDenied: ExitUserDenied, Timeout: ExitTimeout,
	Unavailable: ExitUnavailable, NotFound: ExitNotFound, ToolNotFound: ExitToolNotFound,
}

// ExitCode returns the exit code for errors of the kind.
func (k Kind) ExitCode() int { return cmp.Or(exitCodes[k], ExitExecution) }

// Error is an error with a kind. Op and Subject are what was being done and to
// what ("read pack manifest", "/srv/packs/a/manifest.json"); Advice is one
// sentence that tells a person what to do next. All but Kind may be empty.
type Error struct {
	Kind    Kind
	Op      string
	Subject string
	Err     error
	Advice  string
}

// New returns an error of the given kind.
func New(kind Kind, op, subject string, err error) *Error {
	return &Error{Kind: kind, Op: op, Subject: subject, Err: err}
}

// Newf is New with a cause formatted by fmt.Errorf.
func Newf(kind Kind, op, subject, format string, args ...any) *Error {
	return New(kind, op, subject, fmt.Errorf(format, args...))
}

// Wrap is New with the kind of err.
func Wrap(op, subject string, err error) *Error {
	return New(KindOf(err), op, subject, err)
}

// Advise returns a copy of e with advice.
func (e *Error) Advise(advice string) *Error {
	c := *e
	c.Advice = advice
	return &c
}

// Error returns the text without the advice: "op subject: cause".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Subject != "" {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(e.Subject)
	}
	switch {
	case e.Err != nil && b.Len() > 0:
		b.WriteString(": " + e.Err.Error())
	case e.Err != nil:
		b.WriteString(e.Err.Error())
	case b.Len() == 0:
		b.WriteString(string(e.Kind))
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the outermost Error in err's chain. Without one, it
// knows some errors of the standard library; all others are Execution.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Timeout
	case errors.Is(err, os.ErrNotExist):
		return NotFound
	}
	return Execution
}

// AdviceOf returns the outermost advice in err's chain. Without any, it returns the
// advice for a full disk, or "".
func AdviceOf(err error) string {
	for rest := err; rest != nil; {
		e, ok := errors.AsType[*Error](rest)
		if !ok {
			break
		}
		if e.Advice != "" {
			return e.Advice
		}
		rest = e.Err
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return "Make room on the disk, and try again."
	}
	return ""
}
