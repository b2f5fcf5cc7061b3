//go:build linux

package onshare

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"
	"golang.org/x/sys/unix"
)

var (
	share  = flag.String("share", "", "test this shared folder instead of an ordinary one")
	walked = flag.String("walk", "", "a folder to walk twice")
	count  = flag.Int("files", 0, "how many files the walk finds")
)

// folder returns an empty folder to test in.
func folder(t *testing.T) string {
	if *share == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(*share, "test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestMain(m *testing.M) {
	flag.Parse()
	_ = os.Symlink("/proc/self/fd", "/dev/fd") // a bare guest has none
	os.Exit(m.Run())
}

func TestPosix(t *testing.T) {
	for name, test := range posixtest.All {
		switch {
		case name == "FcntlFlockLocksFile":
			continue // wants locks of one process to exclude each other, which POSIX denies
		case name == "OpenSymlinkRace" && *share == "":
			continue // is about what serves a folder
		}
		t.Run(name, func(t *testing.T) { test(t, folder(t)) })
	}
}

func create(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Two mappings of a file and the file itself show the same bytes.
func TestSharedMapping(t *testing.T) {
	const size = 1 << 20
	f := create(t, filepath.Join(folder(t), "f"))
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	var maps [2][]byte
	for i := range maps {
		m, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := unix.Munmap(m); err != nil {
				t.Error(err)
			}
		}()
		maps[i] = m
	}
	for i := 0; i < size; i += 1000 {
		maps[0][i] = byte(i)
	}
	if err := unix.Msync(maps[0], unix.MS_SYNC); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(maps[0], maps[1]) {
		t.Error("two mappings differ")
	}
	if b, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(b, maps[0]) {
		t.Errorf("the file is not as the mapping: %v", err)
	}
	if _, err := f.WriteAt([]byte("written"), 4096); err != nil || string(maps[1][4096:4103]) != "written" {
		t.Errorf("the mapping is not as the file: %q, %v", maps[1][4096:4103], err)
	}
}

// Locks exclude each other, whoever holds them.
func TestLocks(t *testing.T) {
	name := filepath.Join(folder(t), "f")
	a, b := create(t, name), create(t, name)
	if err := unix.Flock(int(a.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(b.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		t.Errorf("flock by another: %v", err)
	}
	lock := func(f *os.File, start int64) error {
		return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: start, Len: 10})
	}
	if err := lock(a, 0); err != nil {
		t.Fatal(err)
	}
	if err := lock(b, 5); err != unix.EAGAIN {
		t.Errorf("a lock that overlaps: %v", err)
	}
	if err := lock(b, 10); err != nil {
		t.Errorf("a lock beside it: %v", err)
	}
}

func TestHoles(t *testing.T) {
	const size = 1 << 20
	f := create(t, filepath.Join(folder(t), "f"))
	blocks := func() int64 {
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		var st unix.Statx_t
		if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, &st); err != nil {
			t.Fatal(err)
		}
		return int64(st.Blocks)
	}
	if _, err := f.Write(bytes.Repeat([]byte{1}, size)); err != nil {
		t.Fatal(err)
	}
	if got := blocks(); got < size/512 {
		t.Errorf("%d blocks of data", got)
	}
	fallocate := func(mode uint32, off, n int64) {
		t.Helper()
		if err := unix.Fallocate(int(f.Fd()), mode, off, n); err != nil {
			t.Fatal(err)
		}
	}
	fallocate(unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, size/2)
	if got := blocks(); got > size/512*3/4 {
		t.Errorf("%d blocks after a hole was punched", got)
	}
	fallocate(unix.FALLOC_FL_ZERO_RANGE, size/2, 4096)
	b := make([]byte, 4097)
	if _, err := f.ReadAt(b, size/2); err != nil || !bytes.Equal(b[:4096], make([]byte, 4096)) || b[4096] != 1 {
		t.Errorf("after zeroing: %v, %v", b[4090:], err)
	}
	fallocate(0, size, size)
	if st, err := f.Stat(); err != nil || st.Size() != 2*size {
		t.Errorf("%v, %v", st, err)
	}
	if err := f.Truncate(1 << 40); err != nil {
		t.Error(err)
	}
	if off, err := unix.Seek(int(f.Fd()), 0, unix.SEEK_DATA); err != nil || off < size/2-4096 || off > size/2+4096 {
		t.Errorf("data begins at %d, %v", off, err)
	}
	if off, err := unix.Seek(int(f.Fd()), 0, unix.SEEK_HOLE); err != nil || off != 0 {
		t.Errorf("a hole begins at %d, %v", off, err)
	}
}

func TestRename(t *testing.T) {
	dir := folder(t)
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, name := range []string{a, b} {
		if err := os.WriteFile(name, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_NOREPLACE); err != unix.EEXIST {
		t.Errorf("no-replace: %v", err)
	}
	if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(a); string(text) != b {
		t.Errorf("a is %q, %v", text, err)
	}
	// Who is in a folder that is renamed stays in it.
	if err := os.MkdirAll(filepath.Join(dir, "d", "e"), 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(filepath.Join(dir, "d", "e"), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "renamed")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkdirat(fd, "new", 0o755); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "renamed", "e", "new")); err != nil {
		t.Error(err)
	}
}

func TestCopyFileRange(t *testing.T) {
	dir := folder(t)
	src, dst := create(t, filepath.Join(dir, "src")), create(t, filepath.Join(dir, "dst"))
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	if _, err := src.Write(data); err != nil {
		t.Fatal(err)
	}
	from, to := int64(16), int64(0)
	for int(from) < len(data) {
		if n, err := unix.CopyFileRange(int(src.Fd()), &from, int(dst.Fd()), &to, len(data)-int(from), 0); err != nil || n == 0 {
			t.Fatal(n, err)
		}
	}
	if b, err := os.ReadFile(dst.Name()); err != nil || !bytes.Equal(b, data[16:]) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// What a shared folder refuses, and how.
func TestRefusals(t *testing.T) {
	if *share == "" {
		t.Skip("an ordinary folder refuses none of it")
	}
	dir := folder(t)
	if fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR, 0o600); err != unix.EOPNOTSUPP {
		t.Errorf("O_TMPFILE: %d, %v", fd, err)
	}
	name := filepath.Join(dir, "special")
	for _, kind := range []uint32{unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK} {
		if err := unix.Mknod(name, kind|0o600, int(unix.Mkdev(1, 3))); err != unix.EPERM {
			t.Errorf("mknod of %o: %v", kind, err)
		}
	}
	if err := os.WriteFile(name, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o755|os.ModeSetuid|os.ModeSetgid); err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(name); err != nil || st.Mode() != 0o755 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if err := unix.Setxattr(name, "trusted.x", []byte("x"), 0); err != unix.EOPNOTSUPP {
		t.Errorf("another's attribute: %v", err)
	}
}

// Programs that do everything at once to the same few names see only the errors
// that they would see anywhere.
func TestManyAtOnce(t *testing.T) {
	dir := folder(t)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 40 {
				a, b := filepath.Join(dir, fmt.Sprint(i%5)), filepath.Join(dir, fmt.Sprint((i+g)%5))
				if err := os.WriteFile(a, []byte{byte(g)}, 0o600); err != nil {
					t.Error(err)
				}
				if err := os.Rename(a, b); err != nil && !os.IsNotExist(err) {
					t.Error(err)
				}
				if _, err := os.Stat(b); err != nil && !os.IsNotExist(err) {
					t.Error(err)
				}
				if err := os.Remove(b); err != nil && !os.IsNotExist(err) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// The second walk is of what the guest knows already.
func TestWalk(t *testing.T) {
	if *walked == "" {
		t.Skip("-walk names no folder")
	}
	for range 2 {
		n := 0
		err := filepath.WalkDir(*walked, func(p string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				n++
				_, err = os.Lstat(p)
			}
			return err
		})
		if err != nil || n != *count {
			t.Errorf("%d files, %v", n, err)
		}
	}
}
