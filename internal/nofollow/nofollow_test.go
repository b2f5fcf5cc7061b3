package nofollow_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"osaurus-sandbox/internal/nofollow"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestReplaced puts links, pipes, other files and nothing in the place of folders and files.
func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.MkdirAll(at("a/b"), 0o755))
	must(t, os.WriteFile(at("a/b/f"), []byte("f"), 0o600))
	must(t, os.WriteFile(at("a/b/other"), []byte("other"), 0o600))
	must(t, os.Symlink("a", at("link")))
	must(t, os.Symlink("b", at("a/link")))
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	for _, path := range []string{"link", "link/b", "a/link", "a/b/f", "a/b/f/x", "none", "none/x"} {
		if _, err := nofollow.Folder(root, path); !errors.Is(err, nofollow.ErrReplaced) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if again, err := nofollow.Folder(root, "."); err != nil || again == root {
		t.Errorf("the folder itself: %v", err)
	}
	sub, err := nofollow.Folder(root, "a/b")
	must(t, err)
	defer sub.Close()
	seen, err := sub.Lstat("f")
	must(t, err)
	f, err := nofollow.File(sub, "f", seen)
	must(t, err)
	must(t, f.Close())
	must(t, os.Rename(at("a/b/f"), at("a/b/moved"))) // it keeps its inode
	for what, replace := range map[string]func() error{
		"nothing": func() error { return nil },
		"link":    func() error { return os.Symlink("other", at("a/b/f")) },
		"pipe":    func() error { return syscall.Mkfifo(at("a/b/f"), 0o600) },
		"file":    func() error { return os.Link(at("a/b/other"), at("a/b/f")) },
		"folder":  func() error { return os.Mkdir(at("a/b/f"), 0o755) },
	} {
		must(t, replace())
		if _, err := nofollow.File(sub, "f", seen); !errors.Is(err, nofollow.ErrReplaced) {
			t.Errorf("%s: %v", what, err)
		}
		must(t, os.RemoveAll(at("a/b/f")))
	}
}
