// Package local is the UNSAFE engine: it runs commands on this computer, confined by the computer's own kernel.
//
// It is for development and tests on computers that cannot run a VM. Commands share the
// kernel with the user's other programs, and SECURITY.md lists what they can reach. Nothing
// uses this package by default.
//
// NewUNSAFE fails if any of the restrictions is missing. On Linux they are Landlock (files, signals, abstract sockets), seccomp,
// resource limits, no new privileges and no capabilities; on macOS Seatbelt (files,
// signals, network) and resource limits. On macOS a process that leaves its group outlives
// its command.
package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// Options configure an Executor.
type Options struct {
	// ThisIsUnsafe must be true: the caller knows that this is no VM.
	ThisIsUnsafe bool

	// Network lets commands use the network, including services on this computer.
	Network bool
}

// temporary is the advice for a missing folder for temporary files.
const temporary = "Make sure that this folder exists, is writable and has free space, or set TMPDIR to another."

// Executor implements engine.Executor on this computer.
type Executor struct {
	opts Options
	temp string // parent of the commands' temporary folders
}

// NewUNSAFE returns the executor after it has run a confined command. It fails with Rejected
// without Options.ThisIsUnsafe, and with Unavailable if this computer cannot confine commands.
func NewUNSAFE(ctx context.Context, opts Options) (*Executor, error) {
	const op = "make the UNSAFE local engine"
	if !opts.ThisIsUnsafe {
		return nil, fault.Newf(fault.Rejected, op, "", "it runs commands on this computer and not in a VM").
			Advise("Use a room. If this is for development and you know what you are doing, ask for the UNSAFE one explicitly.")
	}
	if os.Args[0] == monitorName {
		// A helper that does not call Helper would start helpers forever.
		return nil, withoutHelper(op)
	}
	temp, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, os.TempDir(), err).Advise(temporary)
	}
	e := &Executor{opts: opts, temp: temp}
	if err := e.prove(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// withoutHelper is the fault of a program that does not call Helper.
func withoutHelper(op string) error {
	return fault.Newf(fault.Unavailable, op, "", "this program does not begin with local.Helper").
		Advise("Call local.Helper first in main, or in TestMain.")
}

// prove runs a command, to find out whether the kernel supports every restriction.
func (e *Executor) prove(ctx context.Context) error {
	const op = "prove the UNSAFE local engine"
	workspace, err := os.MkdirTemp(e.temp, "osaurus-local-proof-")
	if err != nil {
		return fault.New(fault.Unavailable, op, e.temp, err).Advise(temporary)
	}
	defer os.RemoveAll(workspace)
	exit, err := engine.Run(ctx, e, engine.Command{Args: []string{"/bin/sh", "-c", "exit 42"}, Dir: workspace})
	if err == nil && exit.Code != 42 {
		err = fault.Newf(fault.Unavailable, op, "", "a command does not end as it should")
	}
	return err
}

// Exec implements engine.Executor. Dir is absolute: the workspace. Commands have no terminal, no
// idle timeout and no limit of output.
func (e *Executor) Exec(ctx context.Context, cmd engine.Command) (engine.Process, error) {
	const op = "start command"
	if cmd.Terminal != nil || cmd.RoomRoot || cmd.Plugin != "" || cmd.Network != "" || cmd.IdleTimeout != 0 || cmd.MaxOutput != 0 {
		return nil, fault.Newf(fault.Unavailable, op, "", "the UNSAFE local engine does not offer this").
			Advise("Run the command in a room.")
	}
	workspace, err := e.workspace(cmd.Dir)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp(e.temp, "osaurus-local-")
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, e.temp, err).Advise(temporary)
	}
	p, err := start(ctx, cmd, spec{
		Args: cmd.Args, Env: environment(cmd.Env, workspace, scratch),
		Workspace: workspace, Scratch: scratch, ReadOnly: cmd.ReadOnly,
		Network: e.opts.Network,
	})
	if err != nil {
		_ = os.RemoveAll(scratch)
		return nil, err
	}
	return p, nil
}

// workspace returns the real path of a command's workspace, because rules do not follow links.
func (e *Executor) workspace(root string) (string, error) {
	const op = "enter workspace"
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", fault.Wrap(op, root, err).Advise("Name a folder that is there, and that you can reach.")
	}
	if st, err := os.Stat(real); err != nil || !st.IsDir() {
		return "", fault.Newf(fault.NotFound, op, root, "it is not a folder").Advise("Name a folder that is there.")
	}
	// A command may write in its temporary folder, also with ReadOnly.
	if inside, err := filepath.Rel(real, e.temp); err != nil || filepath.IsLocal(inside) {
		return "", fault.Newf(fault.Rejected, op, root, "the folder of temporary files is in it").
			Advise("Choose a workspace further down, or set TMPDIR to a folder elsewhere.")
	}
	return real, nil
}

// spec describes a command and what it may do.
type spec struct {
	Args      []string
	Env       []string
	Workspace string
	Scratch   string
	ReadOnly  bool
	Network   bool
}

// environment returns the environment of every command with env over it. The home is the
// command's temporary folder, which keeps settings and caches of programs out of the workspace.
func environment(env []string, workspace, scratch string) []string {
	cmd := exec.Cmd{Env: slices.Concat([]string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + scratch, "TMPDIR=" + scratch, "PWD=" + workspace,
		"LANG=C.UTF-8", "TERM=dumb", "SHELL=/bin/sh",
	}, env)}
	return cmd.Environ() // without duplicates
}
