//go:build linux

package room

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"osaurus-sandbox/internal/removeall"
)

// trash is where folders wait to be deleted, which may take long.
const trash = ".trash"

// discard takes a folder away at once and deletes it in the background. Deleting
// follows no links, and takes no more for what a room's root has made deep.
func (k *Keeper) discard(path string) error {
	bin := filepath.Join(k.opts.Data, trash)
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return err
	}
	name := rand.Text()
	if err := os.Rename(path, filepath.Join(bin, name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return empty(bin, name)
}

// sweep deletes what the last boot had not yet.
func (k *Keeper) sweep() error {
	bin := filepath.Join(k.opts.Data, trash)
	old, err := os.ReadDir(bin)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names := make([]string, len(old))
	for i, e := range old {
		names[i] = e.Name()
	}
	return empty(bin, names...)
}

// empty deletes some of what is in the bin, in the background. What is left, the
// next boot sweeps.
func empty(bin string, names ...string) error {
	root, err := os.OpenRoot(bin)
	if err != nil {
		return err
	}
	go func() {
		defer root.Close()
		for _, name := range names {
			_ = removeall.Remove(root, name)
		}
	}()
	return nil
}
