package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"osaurus-sandbox/internal/fault"
)

// privateFile keeps other users from reading files of the home.
const privateFile fs.FileMode = 0o600

// WriteFile replaces a file atomically and syncs it to disk. It creates missing folders.
func WriteFile(path string, data []byte) error { return ReplaceFile(path, data, privateFile) }

// ReplaceFile is WriteFile for files with another mode than 0600.
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

// Sync writes a file, or the names in a folder, to disk.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
