//go:build linux

package room

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReadBelow checks that what is no file is told from a file that is too large, and from other errors.
func TestReadBelow(t *testing.T) {
	dir := t.TempDir()
	for name, lay := range map[string]func(string) error{
		"link":  func(p string) error { return os.Symlink("/etc/passwd", p) },
		"pipe":  func(p string) error { return unix.Mkfifo(p, 0o600) },
		"text":  func(p string) error { return os.WriteFile(p, []byte("root\n"), 0o600) },
		"empty": func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"none":  func(string) error { return nil },
	} {
		if err := lay(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	at, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(at)
	for name, want := range map[string]string{"text": "root\n", "empty": ""} {
		if got, err := readBelow(at, name, 5); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"link", "pipe", "none"} {
		if _, err := readBelow(at, name, 5); !errors.Is(err, errNoFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readBelow(at, "text", 4); err == nil || errors.Is(err, errNoFile) {
		t.Errorf("a file that is too large: %v", err)
	}
	if _, err := readBelow(-1, "text", 5); !errors.Is(err, unix.EBADF) {
		t.Errorf("what cannot be opened: %v", err)
	}
}
