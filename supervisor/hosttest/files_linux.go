package hosttest

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/machine"
)

// workspace is where guests have the workspace.
const workspace = "/workspace"

// hostFiles are this host's, touched by the guest's own code. Of what a guest has, its
// workspace is the backend's, and all else is in a folder of the guest's own.
type hostFiles struct{ *Guest }

// Files are real ones, on this host.
func (g *Guest) Files() machine.Files { return hostFiles{g} }

// on does something with a file, by the name that it has on this host, and tells
// what went wrong by the name that it has in the guest.
func (f hostFiles) on(file engine.File, do func(*guest.Client, engine.File) error) error {
	if err := f.enter(file.User); err != nil {
		return err
	}
	there, here := "", filepath.Join(f.terminals.dir, "root")
	if file.Root == workspace || strings.HasPrefix(file.Root, workspace+"/") {
		there, here = workspace, f.backend.Workspace
	}
	if here == "" {
		return fault.Newf(fault.NotFound, "touch files", file.String(), "the backend has no workspace")
	}
	file.Root = filepath.Join(here, strings.TrimPrefix(file.Root, there))
	if err := os.MkdirAll(file.Root, 0o755); err != nil {
		return err
	}
	err := do(f.terminals.client, file)
	for at := err; at != nil; at = errors.Unwrap(at) {
		if told, ok := at.(*fault.Error); ok {
			told.Subject = strings.ReplaceAll(told.Subject, here, there)
		}
	}
	return err
}

func (f hostFiles) StatFile(ctx context.Context, file engine.File) (info engine.FileInfo, err error) {
	err = f.on(file, func(c *guest.Client, file engine.File) (err error) {
		info, err = c.StatFile(ctx, file)
		return err
	})
	return info, err
}

func (f hostFiles) ListFolder(ctx context.Context, file engine.File, limit int) (list []engine.FolderEntry, more bool, err error) {
	err = f.on(file, func(c *guest.Client, file engine.File) (err error) {
		list, more, err = c.ListFolder(ctx, file, limit)
		return err
	})
	return list, more, err
}

func (f hostFiles) ReadFile(ctx context.Context, file engine.File, part engine.FilePart, to io.Writer) (r engine.FileRead, err error) {
	err = f.on(file, func(c *guest.Client, file engine.File) (err error) {
		r, err = c.ReadFile(ctx, file, part, to)
		return err
	})
	return r, err
}

func (f hostFiles) WriteFile(ctx context.Context, file engine.File, w engine.FileWrite) (done engine.FileWritten, err error) {
	err = f.on(file, func(c *guest.Client, file engine.File) (err error) {
		done, err = c.WriteFile(ctx, file, w)
		return err
	})
	return done, err
}

func (f hostFiles) DigestFiles(ctx context.Context, folder engine.File, limit uint64, paths []string) (list []engine.FileDigest, err error) {
	err = f.on(folder, func(c *guest.Client, folder engine.File) (err error) {
		list, err = c.DigestFiles(ctx, folder, limit, paths)
		return err
	})
	return list, err
}

func (f hostFiles) SearchFiles(ctx context.Context, file engine.File, s engine.FileSearch, tell func(engine.FileMatch) error) (end engine.SearchEnd, err error) {
	err = f.on(file, func(c *guest.Client, file engine.File) (err error) {
		end, err = c.SearchFiles(ctx, file, s, tell)
		return err
	})
	return end, err
}
