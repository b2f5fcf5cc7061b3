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

// Request describes a command. Only Command and WorkspaceRoot are required.
type Request struct {
	Command Program

	// WorkspaceRoot is the working directory: an absolute path, as commands see it.
	// Commands can write there and in a temporary folder of their own.
	WorkspaceRoot string

	// Env is added to the engine's own environment and overrides it. Nothing is taken
	// from the calling program's environment.
	Env map[string]string

	// Stdin is the input; nil is an empty one. If reading it fails, the command is
	// killed and Exit returns the error, because the command must not take a part of
	// its input for all of it. Stdin is not closed, and a Read that hangs holds up
	// nothing.
	Stdin io.Reader

	// Timeout is the time after which the command is killed; 0 means never.
	Timeout time.Duration

	// MaxOutputBytes bounds the output of both streams together; 0 is no limit. The
	// rest is dropped while the command continues, and its ExitStatus says Truncated.
	MaxOutputBytes int64

	// Tenant is recorded with the command and has no other effect.
	Tenant Tenant

	// ReadOnly has the kernel refuse every change below WorkspaceRoot: contents,
	// names, modes, owners, times, attributes.
	ReadOnly bool
}

// Program is a program with its arguments (Argv) or a line for a shell (ShellLine).
type Program struct {
	Args []string `json:"args,omitempty"`
	Line string   `json:"line,omitempty"`
}

// Argv returns a program that runs without a shell. A name without a slash is looked
// up in the command's PATH; Start fails with NotFound if it is not there.
func Argv(name string, args ...string) Program {
	return Program{Args: append([]string{name}, args...)}
}

// ShellLine returns a line for a POSIX shell. If a program in it does not exist, the
// shell exits with 127.
func ShellLine(line string) Program { return Program{Line: line} }

// Tenant names for whom a command runs, for example by an agent's id.
type Tenant string

// MaxTenantBytes bounds a tenant's name, because every record of a command repeats it.
const MaxTenantBytes = 256

// Check returns InvalidArgs for a malformed request.
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
		return fmt.Errorf("the workspace %q is not an absolute path", r.WorkspaceRoot)
	case path.Clean(r.WorkspaceRoot) == "/":
		return errors.New("the workspace is /")
	case strings.ContainsRune(r.WorkspaceRoot, 0):
		return errors.New("the workspace's path holds a NUL byte")
	}
	return nil
}

func (r Request) checkEnv() error {
	for name, value := range r.Env {
		switch {
		case name == "", strings.ContainsAny(name, "=\x00"):
			return fmt.Errorf("%q is not a name of an environment variable", name)
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
