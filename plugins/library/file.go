package library

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
)

// read reads the file of a plugin or revision, or fails with NotFound.
func read(id config.PluginID, path string) ([]byte, error) {
	const op = "read plugin"
	text, err := contents(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.Newf(fault.NotFound, op, string(id), "there is no such plugin").Advise("See: osaurus-sandbox plugin list")
	case err != nil:
		return nil, fault.New(fault.Unavailable, op, path, err).Advise("Move the file away, or make it one that you can read.")
	}
	return text, nil
}

// contents reads a regular file, up to one byte more than a recipe may have. It does not block on a FIFO.
func contents(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is not a regular file but %v", info.Mode().Type())
	}
	return io.ReadAll(io.LimitReader(f, plugins.MaxRecipe+1))
}

// same reports whether a file contains exactly a text.
func same(path string, text []byte) (bool, error) {
	other, err := contents(path)
	if err != nil {
		return false, fault.New(fault.Unavailable, "read revision", path, err).Advise("Move the file away, or make it one that you can read.")
	}
	return bytes.Equal(other, text), nil
}
