package artifacts

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"osaurus-sandbox/internal/fault"
)

// Read calls tell for each file of an artifact, sorted by path. The path is empty if the
// artifact is a file. Files that people have added are included. It fails with NotFound if
// the artifact was moved away.
func (a *Artifacts) Read(ctx context.Context, f Artifact, tell func(path string, content io.Reader) error) error {
	const op = "read artifact"
	err := a.read(ctx, f, tell)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Newf(fault.NotFound, op, a.Path(f), "it is not there any more").Advise("Somebody has moved it away. Forget it with `osaurus-sandbox artifacts delete`.")
	}
	return a.fault(op, f.within(), err)
}

func (a *Artifacts) read(ctx context.Context, f Artifact, tell func(path string, content io.Reader) error) error {
	if !f.Folder {
		return a.readFile(a.root.FS(), f.within(), "", tell)
	}
	dir, err := a.root.OpenRoot(f.within())
	if err != nil {
		return err
	}
	defer dir.Close()
	return fs.WalkDir(dir.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil || !entry.Type().IsRegular() {
			return err
		}
		return a.readFile(dir.FS(), name, name, tell)
	})
}

func (a *Artifacts) readFile(from fs.FS, name, path string, tell func(string, io.Reader) error) error {
	file, err := from.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return tell(path, file)
}
