//go:build linux

package room

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReadSmall checks that a missing or special file is empty, and that other errors are returned.
func TestReadSmall(t *testing.T) {
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
	for name, want := range map[string]string{"link": "", "pipe": "", "text": "root\n", "empty": "", "none": ""} {
		if got, err := readSmall(at, name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := readSmall(-1, "text"); !errors.Is(err, unix.EBADF) {
		t.Errorf("what cannot be opened: %v", err)
	}
}
