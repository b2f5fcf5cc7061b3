package config

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// WriteWith replaces a file as a whole or not at all, and leaves no other.
func TestWriteWith(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	broken := errors.New("interrupted")
	for _, tc := range []struct {
		text, want string
		err        error
	}{
		{"first", "first", nil}, {"part", "first", broken}, {"second", "second", nil},
	} {
		err := WriteWith(path, 0o640, func(w io.Writer) error {
			_, err := io.WriteString(w, tc.text)
			return errors.Join(err, tc.err)
		})
		text, _ := os.ReadFile(path)
		info, _ := os.Stat(path)
		entries, _ := os.ReadDir(dir)
		if !errors.Is(err, tc.err) || string(text) != tc.want || info.Mode() != 0o640 || len(entries) != 1 {
			t.Errorf("after %q: %v, %q, %v, %v", tc.text, err, text, info, entries)
		}
	}
	missing := filepath.Join(dir, "missing", "file")
	if err := WriteWith(missing, 0o600, func(io.Writer) error { return nil }); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a missing folder: %v", err)
	}
}
