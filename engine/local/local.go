// Package local is the UNSAFE execution backend: it runs commands on this computer, confined by the computer's own kernel.
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
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// Options configure a Sandbox.
type Options struct {
	// ThisIsUnsafe must be true: the caller knows that this is no VM.
	ThisIsUnsafe bool

	// Network lets commands use the network, including services on this computer.
	Network bool

	// Readable lists files and folders that commands may read and execute, in addition to
	// the system's programs and the workspace.
	Readable []string
}

// temporary is the advice for a missing folder for temporary files.
const temporary = "See that this folder is there, is yours to write to and has room, or set TMPDIR to another."

// Note is in the Exit of every command.
const Note = "UNSAFE: it ran on this computer and not in a VM"

// Sandbox implements engine.Sandbox on this computer.
type Sandbox struct {
	opts Options
	temp string // parent of the commands' temporary folders
}

// NewUNSAFE returns the backend after it has run a confined command. It fails with Rejected
// without Options.ThisIsUnsafe or permission to a readable path, with NotFound for a missing
// path, and with Unavailable if this computer cannot confine commands.
func NewUNSAFE(ctx context.Context, opts Options) (*Sandbox, error) {
	const op = "make the UNSAFE local sandbox"
	if !opts.ThisIsUnsafe {
		return nil, fault.Newf(fault.Rejected, op, "", "it runs commands on this computer and not in a VM").
			Advise("Use the room backend. If this is for development and you know what you do, ask for the UNSAFE one explicitly.")
	}
	for _, path := range opts.Readable {
		if !filepath.IsAbs(path) {
			return nil, fault.Newf(fault.InvalidArgs, op, path, "a readable path must be absolute").Advise("Write it from the root on.")
		}
		if _, err := os.Stat(path); err != nil {
			return nil, unreachable(op, path, err)
		}
	}
	if os.Args[0] == wardenName {
		// A helper that does not call Helper would start helpers forever.
		return nil, withoutHelper(op)
	}
	if err := available(); err != nil {
		return nil, err
	}
	temp, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, os.TempDir(), err).Advise(temporary)
	}
	s := &Sandbox{opts: opts, temp: temp}
	if err := s.prove(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// unreachable returns the fault for a path that cannot be read, with advice.
func unreachable(op, path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, op, path, err).Advise("Name what is there.")
	case errors.Is(err, fs.ErrPermission):
		return fault.New(fault.Rejected, op, path, err).Advise("Have its owner let you into all folders on the way to it, or name another.")
	}
	return fault.Wrap(op, path, err).Advise("Name another: this computer finds nothing by that path.")
}

// withoutHelper is the fault of a program that does not call Helper.
func withoutHelper(op string) error {
	return fault.Newf(fault.Unavailable, op, "", "this program does not begin with local.Helper").
		Advise("Call local.Helper first in main, or in TestMain.")
}

// prove runs a command, to find out whether the kernel supports every restriction.
func (s *Sandbox) prove(ctx context.Context) error {
	const op = "prove the UNSAFE local sandbox"
	workspace, err := os.MkdirTemp(s.temp, "osaurus-local-proof-")
	if err != nil {
		return fault.New(fault.Unavailable, op, s.temp, err).Advise(temporary)
	}
	defer os.RemoveAll(workspace)
	h, err := s.Start(ctx, engine.Request{Command: engine.ShellLine("exit 42"), WorkspaceRoot: workspace})
	if err != nil {
		return err
	}
	defer h.Close()
	exit, err := h.Exit(ctx)
	if err == nil && exit.Code != 42 {
		err = fault.Newf(fault.Unavailable, op, "", "a command does not end as it should")
	}
	return err
}

// Start implements engine.Sandbox.
func (s *Sandbox) Start(ctx context.Context, req engine.Request) (engine.Handle, error) {
	const op = "start command"
	if err := req.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fault.New(fault.KindOf(err), op, "", context.Cause(ctx))
	}
	workspace, err := s.workspace(req.WorkspaceRoot)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp(s.temp, "osaurus-local-")
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, s.temp, err).Advise(temporary)
	}
	c := cell{
		Args: arguments(req.Command), Env: environment(req, workspace, scratch),
		Workspace: workspace, Scratch: scratch, ReadOnly: req.ReadOnly,
		Network: s.opts.Network, Readable: s.opts.Readable,
	}
	h, err := start(ctx, req, c)
	if err != nil {
		_ = os.RemoveAll(scratch)
		return nil, err
	}
	return h, nil
}

// workspace is the real path of a command's workspace, for rules that a link
// does not lead away from.
func (s *Sandbox) workspace(root string) (string, error) {
	const op = "enter workspace"
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", unreachable(op, root, err)
	}
	if st, err := os.Stat(real); err != nil || !st.IsDir() {
		return "", fault.Newf(fault.NotFound, op, root, "it is no folder").Advise("Name a folder that is there.")
	}
	// A command may write in its temporary folder, also with ReadOnly.
	if inside, err := filepath.Rel(real, s.temp); err != nil || filepath.IsLocal(inside) {
		return "", fault.Newf(fault.Rejected, op, root, "the folder of temporary files is in it").
			Advise("Choose a workspace further down, or set TMPDIR to a folder elsewhere.")
	}
	return real, nil
}

// cell is all that a command gets, and all that it may do.
type cell struct {
	Args      []string
	Env       []string
	Workspace string
	Scratch   string
	ReadOnly  bool
	Network   bool
	Readable  []string
}

func arguments(c engine.Program) []string {
	if c.Line != "" {
		return []string{"/bin/sh", "-c", c.Line}
	}
	return c.Args
}

// environment is what a command gets by itself, with the request's over it. Its
// home is its temporary folder: a program's settings and caches have no place in
// the workspace, and the user's are none of its business.
func environment(req engine.Request, workspace, scratch string) []string {
	all := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME": scratch, "TMPDIR": scratch, "PWD": workspace,
		"LANG": "C.UTF-8", "TERM": "dumb", "SHELL": "/bin/sh",
	}
	for name, value := range req.Env {
		all[name] = value
	}
	env := make([]string, 0, len(all))
	for name, value := range all {
		env = append(env, name+"="+value)
	}
	slices.SortFunc(env, strings.Compare)
	return env
}
