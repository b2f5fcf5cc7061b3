//go:build linux

package layers

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func plant(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(dir, "b", "deep"), 0o755))
	must(os.Mkdir(filepath.Join(dir, "mount point"), 0o700))
	must(os.WriteFile(filepath.Join(dir, "b", "file"), []byte("content"), 0o644))
	must(os.Chmod(filepath.Join(dir, "b", "file"), 0o755|os.ModeSetuid))
	must(os.Link(filepath.Join(dir, "b", "file"), filepath.Join(dir, "a-link")))
	must(os.Symlink("../b/file", filepath.Join(dir, "b", "sym")))
	must(unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	must(unix.Setxattr(filepath.Join(dir, "b", "file"), "user.note", []byte("x\x00y"), 0))
	must(os.WriteFile(filepath.Join(dir, strings.Repeat("n", 200)), nil, 0o600))
	long := []unix.Timespec{{Sec: 1e9, Nsec: 5}, {Sec: 1e9, Nsec: 5}}
	must(unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(dir, "b", "sym"), long, unix.AT_SYMLINK_NOFOLLOW))
	for _, p := range []string{"b/file", "b", "b/deep", "mount point", "fifo", ".", strings.Repeat("n", 200)} {
		must(os.Chtimes(filepath.Join(dir, p), time.Unix(1e9, 5), time.Unix(1e9, 5)))
	}
	return dir
}

func TestExportTar(t *testing.T) {
	dir := plant(t)
	point := filepath.Join(dir, "mount point")
	if err := unix.Mount("tmpfs", point, "tmpfs", 0, ""); err != nil {
		t.Logf("\n*** CANNOT MOUNT here (%v): mounts are not covered.", err)
	} else {
		defer unix.Unmount(point, 0)
		if err := os.WriteFile(filepath.Join(point, "hidden"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := ExportTar(&out, dir); err != nil {
		t.Fatal(err)
	}
	want := []string{"./", "a-link", "b/", "b/deep/", "b/file", "b/sym", "fifo", "mount point/", strings.Repeat("n", 200)}
	r := tar.NewReader(bytes.NewReader(out.Bytes()))
	for _, name := range want {
		h, err := r.Next()
		if err != nil || h.Name != name {
			t.Fatalf("%v %v, want %s", h, err, name)
		}
		if h.Uname != "" || h.ModTime.Nanosecond() != 0 {
			t.Errorf("%+v", h)
		}
		switch name {
		case "a-link":
			b, _ := io.ReadAll(r)
			if string(b) != "content" || h.Mode != 0o4755 || h.PAXRecords["SCHILY.xattr.user.note"] != "x\x00y" {
				t.Errorf("%+v %q", h, b)
			}
		case "b/file":
			if h.Typeflag != tar.TypeLink || h.Linkname != "a-link" {
				t.Errorf("%+v", h)
			}
		case "b/sym":
			if h.Linkname != "../b/file" {
				t.Errorf("%+v", h)
			}
		}
	}
	if h, err := r.Next(); err != io.EOF {
		t.Errorf("and then %v %v", h, err)
	}
	var again bytes.Buffer
	if err := ExportTar(&again, dir); err != nil || !bytes.Equal(again.Bytes(), out.Bytes()) {
		t.Errorf("a second archive differs, %v", err)
	}
	// The system's tar reads it.
	cmd := exec.Command("tar", "-t")
	cmd.Stdin = &out
	if got, err := cmd.Output(); err != nil || len(strings.Fields(string(got))) != len(want)+1 {
		t.Errorf("tar -t: %v\n%s", err, got)
	}
}
