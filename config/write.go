package config

import (
	"errors"
	"io"
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
	err := os.MkdirAll(filepath.Dir(path), privateDir)
	if err == nil {
		err = WriteWith(path, mode, func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		})
	}
	if err == nil {
		err = Sync(filepath.Dir(path))
	}
	if err != nil {
		return fault.New(fault.Unavailable, "write", path, err).Advise("Check that the folder is writable and that its disk has space.")
	}
	return nil
}

// WriteWith replaces a file atomically with what write writes. If that fails, the file stays as it is. The folder must
// exist. The folder is not synced, which some file systems do not support.
func WriteWith(path string, mode fs.FileMode, write func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = errors.Join(write(tmp), tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// Sync writes a file, or the names in a folder, to disk.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
