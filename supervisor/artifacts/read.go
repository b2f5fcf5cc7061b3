package artifacts

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/copyfiles"
)

// Read writes an artifact as an archive for copyfiles.Place, with what people have added to it. It
// fails with NotFound if the artifact was moved away.
func (a *Artifacts) Read(ctx context.Context, f Artifact, w io.Writer) error {
	const op = "read artifact"
	err := copyfiles.Archive(ctx, w, a.Path(f), f.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Newf(fault.NotFound, op, a.Path(f), "it is not there any more").Advise("Somebody has moved it away. Forget it with `osaurus-sandbox artifacts delete`.")
	}
	return a.fault(op, f.within(), err)
}
