package artifacts

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"osaurus-sandbox/internal/removeall"
)

// aimed is the file in a draft's folder that names the destination. A daemon that dies after
// the move and before the commit leaves files there without a row.
const aimed = "aimed"

// aim records the draft's destination.
func (d *Draft) aim(place string) error {
	a := d.of
	f, err := a.root.OpenFile(path.Join(d.own, aimed), os.O_CREATE|os.O_EXCL|os.O_WRONLY, privateFile)
	if err != nil {
		return a.fault("share", d.made.Name, err)
	}
	_, err = f.WriteString(place)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = a.sync(d.own)
	}
	return a.fault("share", d.made.Name, err)
}

// clear removes drafts of earlier daemons, and files that they moved without a row.
func (a *Artifacts) clear(ctx context.Context) error {
	entries, err := fs.ReadDir(a.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if own := e.Name(); strings.HasPrefix(own, drafts) {
			err = errors.Join(err, a.takeBack(ctx, own), removeall.Remove(a.root, own))
		}
	}
	return err
}

// takeBack removes a draft's moved files unless they have a row.
func (a *Artifacts) takeBack(ctx context.Context, own string) error {
	if _, err := a.root.Lstat(path.Join(own, item)); !errors.Is(err, fs.ErrNotExist) {
		return err // it was not moved
	}
	place, err := a.root.ReadFile(path.Join(own, aimed))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var kept bool
	err = a.DB.Read(ctx, "clear artifacts", func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM artifacts WHERE session || '/' || name = ?)", string(place)).Scan(&kept)
	})
	if err != nil || kept {
		return err
	}
	if err := a.remove(string(place)); err != nil {
		return err
	}
	_ = a.root.Remove(path.Dir(string(place))) // if it was the first one there
	return nil
}
