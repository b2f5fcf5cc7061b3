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

// workspace is the workspace's path in guests. Other paths are below a temporary folder.
const workspace = "/workspace"

// on calls do with the file's path on this host, and replaces that path in errors with
// the one in the guest.
func on[T any](r room, file engine.File, do func(engine.File) (T, error)) (result T, err error) {
	if err := r.guest.enter(r.user); err != nil {
		return result, err
	}
	there, here := "", filepath.Join(r.guest.terminals.dir, "root")
	if file.Root == workspace || strings.HasPrefix(file.Root, workspace+"/") {
		there, here = workspace, r.guest.backend.Workspace
	}
	if here == "" {
		return result, fault.Newf(fault.NotFound, "access files", file.String(), "the backend has no workspace")
	}
	file.Root = filepath.Join(here, strings.TrimPrefix(file.Root, there))
	if err := os.MkdirAll(file.Root, 0o755); err != nil {
		return result, err
	}
	result, err = do(file)
	for at := err; at != nil; at = errors.Unwrap(at) {
		if told, ok := at.(*fault.Error); ok {
			told.Subject = strings.ReplaceAll(told.Subject, here, there)
		}
	}
	return result, err
}

func (r room) StatFile(ctx context.Context, file engine.File) (engine.FileInfo, error) {
	return on(r, file, func(f engine.File) (engine.FileInfo, error) { return r.Room.StatFile(ctx, f) })
}

func (r room) ListFolder(ctx context.Context, file engine.File, limit int) (list []engine.FolderEntry, more bool, err error) {
	more, err = on(r, file, func(f engine.File) (bool, error) {
		list, more, err = r.Room.ListFolder(ctx, f, limit)
		return more, err
	})
	return list, more, err
}

func (r room) ReadFile(ctx context.Context, file engine.File, part engine.FilePart, to io.Writer) (engine.FileRead, error) {
	return on(r, file, func(f engine.File) (engine.FileRead, error) { return r.Room.ReadFile(ctx, f, part, to) })
}

func (r room) WriteFile(ctx context.Context, file engine.File, w engine.FileWrite) (engine.FileWritten, error) {
	return on(r, file, func(f engine.File) (engine.FileWritten, error) { return r.Room.WriteFile(ctx, f, w) })
}

func (r room) SearchFiles(ctx context.Context, file engine.File, s engine.FileSearch, found func(engine.FileMatch) error) (engine.SearchEnd, error) {
	return on(r, file, func(f engine.File) (engine.SearchEnd, error) { return r.Room.SearchFiles(ctx, f, s, found) })
}
