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

// read is the text of a plugin's file, or of one of its revisions, which may be anything. No file is fault.NotFound.
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

// contents reads a file, and does not wait for what is none. What is too long is cut where it
// is too long for a recipe too.
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
		return nil, fmt.Errorf("it is no file but %v", info.Mode().Type())
	}
	return io.ReadAll(io.LimitReader(f, plugins.MaxRecipe+1))
}

// same reports whether a file holds exactly a text.
func same(path string, text []byte) (bool, error) {
	other, err := contents(path)
	if err != nil {
		return false, fault.New(fault.Unavailable, "read revision", path, err).Advise("Move the file away, or make it one that you can read.")
	}
	return bytes.Equal(other, text), nil
}
