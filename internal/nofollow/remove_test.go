package nofollow_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"osaurus-sandbox/internal/nofollow"
)

// deep makes a chain of folders, each with a file beside the next.
func deep(t *testing.T, dir string, levels int) {
	t.Helper()
	at, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		if err := at.WriteFile("file", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := at.Mkdir("d", 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := at.OpenRoot("d")
		at.Close()
		if err != nil {
			t.Fatal(err)
		}
		at = next
	}
	at.Close()
}

// spare leaves the process only some descriptors beyond those that it has.
func spare(t *testing.T, some uint64) {
	t.Helper()
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, f := range open {
		n, _ := strconv.Atoi(f.Name())
		last = max(last, n)
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(last) + 1 + some, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	})
}

func TestDeepTreeTakesFewDescriptors(t *testing.T) {
	dir := t.TempDir()
	top := filepath.Join(dir, "top")
	if err := os.Mkdir(top, 0o700); err != nil {
		t.Fatal(err)
	}
	const levels, few = 5000, 8
	deep(t, top, levels)
	parent, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	spare(t, few)
	if parent.RemoveAll("top") == nil {
		t.Fatal("what descends has deleted it too: this shows nothing")
	}
	if err := nofollow.Remove(parent, "top"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

func TestRemove(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(at("other/kept"), 0o755))
	must(os.WriteFile(at("other/kept/file"), []byte("text"), 0o644))
	must(os.MkdirAll(at("top/a/b/c"), 0o755))
	must(os.MkdirAll(at("top/wide"), 0o755))
	for i := range 3000 { // more than are read at once
		must(os.Mkdir(at(fmt.Sprintf("top/wide/%d", i)), 0o755))
		must(os.WriteFile(at(fmt.Sprintf("top/wide/%d/file", i)), nil, 0o400))
	}
	for _, link := range []string{"top/link", "top/a/link", "top/a/b/c/link"} {
		must(os.Symlink(at("other"), at(link)))
		must(os.Symlink("../../other/kept", at(link+"2")))
		must(os.Link(at("other/kept/file"), at(link+"3")))
	}
	must(syscall.Mkfifo(at("top/a/fifo"), 0))
	for _, closed := range []string{"top/a/b/c", "top/a/b", "top/a", "top"} {
		must(os.Chmod(at(closed), 0))
	}
	must(os.Symlink("other", at("link")))
	parent, err := os.OpenRoot(dir)
	must(err)
	defer parent.Close()
	for _, name := range []string{"top", "link", "missing"} {
		if err := nofollow.Remove(parent, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(at(name)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
	if text, err := os.ReadFile(at("other/kept/file")); err != nil || string(text) != "text" {
		t.Errorf("behind a link: %q %v", text, err)
	}
}
