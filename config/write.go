package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"osaurus-sandbox/internal/fault"
)

// privateFile: what is in the home is for the user alone.
const privateFile fs.FileMode = 0o600

// WriteFile replaces a file so that at any moment, also after a crash, it is
// either wholly old or wholly new. Its folder is made if need be.
func WriteFile(path string, data []byte) error { return ReplaceFile(path, data, privateFile) }

// ReplaceFile is WriteFile for a file that is not the user's alone.
func ReplaceFile(path string, data []byte, mode fs.FileMode) error {
	if err := writeFile(path, data, mode); err != nil {
		return fault.New(fault.Unavailable, "write", path, err).Advise("Check that the folder is writable and that its disk has space.")
	}
	return nil
}

func writeFile(path string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, privateDir); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return Sync(dir)
}

// Sync makes a file, or the names in a folder, outlast a power cut.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
