package hosttest

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// workspace is the workspace's path in guests. Other paths are below a folder of the
// guest's own.
const workspace = "/workspace"

// on calls do with the file's path on this host, and replaces that path in errors with
// the one in the guest.
func (r room) on(file engine.File, do func(engine.File) error) error {
	if err := r.guest.enter(r.user); err != nil {
		return err
	}
	there, here := "", filepath.Join(r.guest.terminals.dir, "root")
	if file.Root == workspace || strings.HasPrefix(file.Root, workspace+"/") {
		there, here = workspace, r.guest.backend.Workspace
	}
	if here == "" {
		return fault.Newf(fault.NotFound, "touch files", file.String(), "the backend has no workspace")
	}
	file.Root = filepath.Join(here, strings.TrimPrefix(file.Root, there))
	if err := os.MkdirAll(file.Root, 0o755); err != nil {
		return err
	}
	err := do(file)
	for at := err; at != nil; at = errors.Unwrap(at) {
		if told, ok := at.(*fault.Error); ok {
			told.Subject = strings.ReplaceAll(told.Subject, here, there)
		}
	}
	return err
}

func (r room) StatFile(ctx context.Context, file engine.File) (info engine.FileInfo, err error) {
	err = r.on(file, func(file engine.File) (err error) {
		info, err = r.Room.StatFile(ctx, file)
		return err
	})
	return info, err
}

func (r room) ListFolder(ctx context.Context, file engine.File, limit int) (list []engine.FolderEntry, more bool, err error) {
	err = r.on(file, func(file engine.File) (err error) {
		list, more, err = r.Room.ListFolder(ctx, file, limit)
		return err
	})
	return list, more, err
}

func (r room) ReadFile(ctx context.Context, file engine.File, part engine.FilePart, to io.Writer) (read engine.FileRead, err error) {
	err = r.on(file, func(file engine.File) (err error) {
		read, err = r.Room.ReadFile(ctx, file, part, to)
		return err
	})
	return read, err
}

func (r room) WriteFile(ctx context.Context, file engine.File, w engine.FileWrite) (done engine.FileWritten, err error) {
	err = r.on(file, func(file engine.File) (err error) {
		done, err = r.Room.WriteFile(ctx, file, w)
		return err
	})
	return done, err
}

func (r room) DigestFiles(ctx context.Context, folder engine.File, limit uint64, paths []string) (list []engine.FileDigest, err error) {
	err = r.on(folder, func(folder engine.File) (err error) {
		list, err = r.Room.DigestFiles(ctx, folder, limit, paths)
		return err
	})
	return list, err
}

func (r room) SearchFiles(ctx context.Context, file engine.File, s engine.FileSearch, tell func(engine.FileMatch) error) (end engine.SearchEnd, err error) {
	err = r.on(file, func(file engine.File) (err error) {
		end, err = r.Room.SearchFiles(ctx, file, s, tell)
		return err
	})
	return end, err
}
