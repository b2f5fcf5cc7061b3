package artifacts

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"

	"osaurus-sandbox/internal/fault"
)

// Read calls tell for each file of an artifact, sorted by path. The path is empty if the
// artifact is a file. Files that people have added are included. It fails with NotFound if
// the artifact was moved away.
func (a *Artifacts) Read(ctx context.Context, f Artifact, tell func(path string, content io.Reader) error) error {
	const op = "read artifact"
	err := fs.WalkDir(a.root.FS(), f.within(), func(name string, entry fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := a.root.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		return tell(strings.TrimPrefix(strings.TrimPrefix(name, f.within()), "/"), file)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Newf(fault.NotFound, op, a.Path(f), "it is not there any more").Advise("Somebody has moved it away. Forget it with `osaurus-sandbox artifacts delete`.")
	}
	return a.fault(op, f.within(), err)
}
