//go:build linux

package room

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// trash is where folders wait to be deleted, which may take long.
const trash = ".trash"

// discard takes a folder away at once and deletes it in the background. Deleting
// follows no links.
func (k *Keeper) discard(path string) error {
	bin := filepath.Join(k.opts.Data, trash)
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return err
	}
	old := filepath.Join(bin, rand.Text())
	if err := os.Rename(path, old); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	go func() { _ = os.RemoveAll(old) }() // what is left, the next boot sweeps
	return nil
}

// sweep deletes what the last boot had not yet.
func (k *Keeper) sweep() error {
	bin := filepath.Join(k.opts.Data, trash)
	old, err := os.ReadDir(bin)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	go func() {
		for _, e := range old {
			_ = os.RemoveAll(filepath.Join(bin, e.Name()))
		}
	}()
	return err
}
