//go:build linux

package onshare

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"
	"golang.org/x/sys/unix"
)

var share = flag.String("share", "", "test this shared folder instead of an ordinary one")

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
	_ = os.Symlink("/proc/self/fd", "/dev/fd") // missing in a bare guest
	os.Exit(m.Run())
}

func TestPosix(t *testing.T) {
	for name, test := range posixtest.All {
		switch {
		case name == "FcntlFlockLocksFile":
			continue // wants locks of one process to exclude each other, which POSIX denies
		case name == "OpenSymlinkRace" && *share == "":
			continue // tests the server of a folder
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

// Two mappings of a file and the file must have the same content.
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
