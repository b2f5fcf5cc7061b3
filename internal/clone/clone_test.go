package clone_test

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/clone"
)

func root(t *testing.T, dir string) *os.Root {
	t.Helper()
	r, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSparse copies a file of 10 GB with data at its beginning, in its middle and at its end.
func TestSparse(t *testing.T) {
	const size, middle = 10 << 30, 5<<30 + 123
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "disk"))
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(size))
	for _, at := range []int64{0, middle, size - 4} {
		_, err := f.WriteAt([]byte("data"), at)
		must(t, err)
	}
	var counted int64
	made, err := clone.File(t.Context(), f, root(t, dir), "copy", func(n int64) { counted += n })
	must(t, err)
	must(t, made.Close())
	info, err := os.Stat(filepath.Join(dir, "copy"))
	must(t, err)
	if info.Size() != size || clone.Allocated(info) > 1<<20 || counted > 1<<20 {
		t.Errorf("the copy has %d bytes and takes %d, after %d were copied", info.Size(), clone.Allocated(info), counted)
	}
	c, err := os.Open(filepath.Join(dir, "copy"))
	must(t, err)
	defer c.Close()
	for _, at := range []int64{0, middle, size - 4} {
		b := make([]byte, 4)
		if _, err := c.ReadAt(b, at); err != nil || string(b) != "data" {
			t.Errorf("at %d: %q, %v", at, b, err)
		}
	}
}

// TestCancel leaves nothing of a copy that ended early.
func TestCancel(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), make([]byte, 9<<20), 0o600))
	f, err := os.Open(filepath.Join(dir, "f"))
	must(t, err)
	defer f.Close()
	if _, err := clone.Reflink(f, root(t, dir), "probe"); err == nil {
		t.Skip("copies take no time on this file system")
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = clone.File(ctx, f, root(t, dir), "copy", func(int64) { cancel(why) })
	if !errors.Is(err, why) {
		t.Errorf("File: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "copy")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part of the copy is left: %v", err)
	}
}

// listing describes the files below a folder.
func listing(t *testing.T, dir string) (list []string) {
	names := map[uint64]string{}
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		path = strings.TrimPrefix(path, dir)
		inode := info.Sys().(*syscall.Stat_t).Ino
		names[inode] = cmp.Or(names[inode], path)
		target, _ := os.Readlink(dir + path)
		line := strings.Join([]string{path, info.Mode().String(), target, names[inode]}, " | ")
		if target == "" && path != "/closed" { // which was changed
			line += info.ModTime().String()
		}
		list = append(list, line)
		return nil
	}))
	return list
}

func TestTree(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(from, name) }
	old := time.Unix(1e9, 5000)
	must(t, os.MkdirAll(at("deep/"+strings.Repeat("d/", 40)), 0o755))
	must(t, os.WriteFile(at("file\nwith \xff name"), []byte("content"), 0o644))
	must(t, os.Link(at("file\nwith \xff name"), at("z-link")))
	must(t, os.Symlink("/etc/passwd", at("out")))
	must(t, os.Symlink("out", at("loop")))
	must(t, os.WriteFile(at("secret"), []byte("mine"), 0o600))
	must(t, os.Chmod(at("secret"), 0))
	must(t, os.Mkdir(at("closed"), 0o700))
	must(t, os.WriteFile(at("closed/in"), []byte("in"), 0o400))
	must(t, os.Chmod(at("closed"), 0))
	must(t, unix.Mkfifo(at("pipe"), 0o640))
	must(t, os.Mkdir(at("read only"), 0o700))
	must(t, os.WriteFile(at("read only/f"), nil, 0o755))
	must(t, os.Chtimes(at("read only/f"), old, old))
	must(t, os.Chtimes(at("read only"), old, old))
	must(t, os.Chmod(at("read only"), 0o500))
	must(t, clone.Tree(t.Context(), root(t, from), root(t, to), nil))
	for _, dir := range []string{from, to} {
		if info, err := os.Stat(filepath.Join(dir, "closed")); err != nil || info.Mode().Perm() != 0 {
			t.Errorf("a closed folder: %v, %v", info, err)
		}
		must(t, os.Chmod(filepath.Join(dir, "closed"), 0o700))
	}
	want, got := listing(t, from), listing(t, to)
	want = slices.DeleteFunc(want, func(line string) bool { return strings.HasPrefix(line, "/pipe") })
	if !slices.Equal(want, got) || len(want) < 50 {
		t.Errorf("%q\n%q", want, got)
	}
	b, err := os.ReadFile(filepath.Join(to, "z-link"))
	if err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
	for _, dir := range []string{from, to} {
		must(t, os.Chmod(filepath.Join(dir, "read only"), 0o700)) // so that it can be removed
	}
}

func TestTooDeep(t *testing.T) {
	dir := t.TempDir()
	r := root(t, dir)
	for range 130 {
		must(t, r.Mkdir("new", 0o700))
		if err := r.Rename("d", "new/d"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		must(t, r.Rename("new", "d"))
	}
	if err := clone.Tree(t.Context(), r, root(t, t.TempDir()), nil); err == nil || !strings.Contains(err.Error(), "128") {
		t.Errorf("Tree: %v", err)
	}
}
