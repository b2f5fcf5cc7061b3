package engine

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"osaurus-sandbox/internal/fault"
)

// Request is a command and the conditions under which it runs. The zero value
// of each field but Command and WorkspaceRoot is an answer.
type Request struct {
	Command Program

	// WorkspaceRoot is the folder that the command works in, absolute and as
	// the backend's commands name it. It is the working directory, and with the
	// command's own temporary folder all that a command can count on to write.
	WorkspaceRoot string

	// Env is added to the environment that the backend gives every command, and
	// wins over it. Nothing comes from the environment of the calling program.
	Env map[string]string

	// Stdin is copied to the command until it ends, or the command does; nil is
	// an empty input. If it fails, the command is killed and Exit says why: a
	// command must not take half an input for the whole. It is not closed, and
	// a Read that hangs is waited for by nobody.
	Stdin io.Reader

	// Timeout is after how long the command is killed; 0 is never.
	Timeout time.Duration

	// MaxOutputBytes is how much output is handed on, both streams together and
	// in order of arrival; 0 is all of it. What comes after it is read and
	// dropped: the command runs on, and its Exit says Truncated.
	MaxOutputBytes int64

	// Tenant is for whom the command runs. It goes wherever the backend keeps
	// account of commands, and decides nothing.
	Tenant Tenant

	// ReadOnly has the kernel refuse every change below WorkspaceRoot: contents,
	// names, modes, owners, times, attributes.
	ReadOnly bool
}

// Program is a program with its arguments (Argv), or a line for a shell (Shell).
type Program struct {
	Args []string `json:"args,omitempty"`
	Line string   `json:"line,omitempty"`
}

// Argv is a command that no shell sees. A name without a slash is looked for in
// the command's PATH; Start says NotFound if it is not there.
func Argv(name string, args ...string) Program {
	return Program{Args: append([]string{name}, args...)}
}

// ShellLine is a line for the backend's shell, which is a POSIX one at least. A
// program in it that does not exist is the shell's business: it ends with 127.
func ShellLine(line string) Program { return Program{Line: line} }

// Tenant names for whom a command runs, such as an agent's id.
type Tenant string

// MaxTenantBytes bounds a tenant's name: it is repeated in every record of a
// command, and no id or address of any system is as long.
const MaxTenantBytes = 256

// Check says InvalidArgs of a request that no backend can honour. Every Start
// begins with it.
func (r Request) Check() error {
	for _, check := range []error{r.Command.check(), r.checkRoot(), r.checkEnv(), r.Tenant.check()} {
		if check != nil {
			return fault.New(fault.InvalidArgs, "check request", "", check)
		}
	}
	switch {
	case r.Timeout < 0:
		return fault.Newf(fault.InvalidArgs, "check request", "", "the timeout %s is negative", r.Timeout)
	case r.MaxOutputBytes < 0:
		return fault.Newf(fault.InvalidArgs, "check request", "", "the limit of %d bytes of output is negative", r.MaxOutputBytes)
	}
	return nil
}

func (c Program) check() error {
	switch {
	case len(c.Args) > 0 && c.Line != "":
		return errors.New("the command is both a program and a line for the shell")
	case len(c.Args) == 0 && c.Line == "", len(c.Args) > 0 && c.Args[0] == "":
		return errors.New("the command is empty")
	case strings.ContainsRune(strings.Join(c.Args, "")+c.Line, 0):
		return errors.New("the command holds a NUL byte")
	}
	return nil
}

func (r Request) checkRoot() error {
	switch {
	case !path.IsAbs(r.WorkspaceRoot):
		return fmt.Errorf("the workspace %q is no absolute path", r.WorkspaceRoot)
	case path.Clean(r.WorkspaceRoot) == "/":
		return errors.New("the workspace is the root of everything")
	case strings.ContainsRune(r.WorkspaceRoot, 0):
		return errors.New("the workspace's path holds a NUL byte")
	}
	return nil
}

func (r Request) checkEnv() error {
	for name, value := range r.Env {
		switch {
		case name == "", strings.ContainsAny(name, "=\x00"):
			return fmt.Errorf("%q is no name of an environment variable", name)
		case strings.ContainsRune(value, 0):
			return fmt.Errorf("the environment variable %s holds a NUL byte", name)
		}
	}
	return nil
}

func (t Tenant) check() error {
	switch {
	case len(t) > MaxTenantBytes:
		return fmt.Errorf("the tenant's name has %d bytes; %d are allowed", len(t), MaxTenantBytes)
	case !utf8.ValidString(string(t)), strings.ContainsFunc(string(t), func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("the tenant's name %q is not printable", string(t))
	}
	return nil
}
