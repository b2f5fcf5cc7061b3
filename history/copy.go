package history

import (
	"context"
	"errors"
	"io"
	"os"

	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/internal/removeall"
)

// Copy copies what is in the folder from to the empty folder to, as clone.Tree does. If it fails, to is
// empty again.
func Copy(ctx context.Context, from, to *os.Root, report progress.Func) error {
	dir, err := to.Open(".")
	if err != nil {
		return fault.Wrap("copy to", to.Name(), err)
	}
	defer dir.Close()
	if names, err := dir.Readdirnames(1); err != io.EOF {
		return fault.Newf(fault.Rejected, "copy to", to.Name(), "it is not empty: it has %q", names).Advise("Choose a new folder.")
	}
	meter := report.Start("copy files", 0, 0)
	defer meter.Finish()
	if err = clone.Tree(ctx, from, to, meter.Add); err == nil {
		return nil
	}
	_, seekErr := dir.Seek(0, io.SeekStart)
	names, listErr := dir.Readdirnames(-1)
	err = errors.Join(err, seekErr, listErr)
	for _, name := range names {
		err = errors.Join(err, removeall.Remove(to, name))
	}
	return fault.Wrap("copy folder", from.Name(), err)
}
