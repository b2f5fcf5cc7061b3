//go:build linux

package fs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// long returns a name of nearly the maximum length.
func long(i int) string { return fmt.Sprintf("%0250d", i) }

// foldersTakeSpace skips a test on file systems where names take no space.
func foldersTakeSpace(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for i := range 100 { // a few names may be free
		if err := os.Mkdir(filepath.Join(dir, long(i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var info unix.Stat_t
	if err := unix.Stat(dir, &info); err != nil {
		t.Fatal(err)
	}
	if info.Blocks == 0 {
		t.Skipf("folders take no room on the file system of %s: set TMPDIR to a folder on ext4 or XFS", dir)
	}
}

// within checks that a subtree is within its limit, with a tolerance for blocks that a disk adds to folders.
func (l limited) within() {
	l.t.Helper()
	if bytes, _, err := l.usage().count(l.dev.root); err != nil || bytes > l.maxBytes+64*kib {
		l.t.Errorf("%d bytes where %d are allowed, %v", bytes, l.maxBytes, err)
	}
}

// Names, links and folders take space on disk, so the limit of bytes must bound their number.
func TestNamesTakeSpace(t *testing.T) {
	foldersTakeSpace(t)
	const limit, most = 256 * kib, 20000 // more than enough for each of them
	for what, more := range map[string]func(limited, fuse.CreateOut, int) error{
		"folders": func(l limited, _ fuse.CreateOut, i int) error { return second(l.mkdir(l.home, long(i))) },
		"symbolic links": func(l limited, _ fuse.CreateOut, i int) error {
			return l.symlink(l.home, long(i), strings.Repeat("t", 1000)) // the most that XFS takes is 1023
		},
		"names": func(l limited, f fuse.CreateOut, i int) error { return l.link(f.NodeId, l.home, long(i)) },
		"files": func(l limited, _ fuse.CreateOut, i int) error {
			f, err := l.create(l.home, long(i))
			l.release(f.Fh)
			return err
		},
	} {
		l := newLimited(t, limit, 0)
		f := must(l.create(l.home, "f"))(t)
		var err error
		for i := 0; err == nil && i < most; i++ {
			err = more(l, f, i)
		}
		want(t, what, err, unix.EDQUOT)
		l.within()
		l.exact()
	}
}

// The limit also bounds longer names. Replacing a name in the same folder needs no space.
func TestLongerNamesTakeSpace(t *testing.T) {
	foldersTakeSpace(t)
	const limit, names = 256 * kib, 4000
	l := newLimited(t, limit, 0)
	f := must(l.create(l.home, "f"))(t)
	d := must(l.mkdir(l.home, "d"))(t)
	want(t, "link", l.link(f.NodeId, d.NodeId, "f"), nil)
	for i := range names {
		must(none{}, l.link(f.NodeId, l.home, fmt.Sprint(i)))(t)
	}
	want(t, "create", second(l.create(l.home, "new")), nil)
	var err error
	for i := 0; err == nil && i < names; i++ {
		err = l.rename(l.home, fmt.Sprint(i), l.home, long(i), 0)
	}
	want(t, "longer names", err, unix.EDQUOT)
	l.within()
	want(t, "to another folder", l.rename(l.home, "f", d.NodeId, "f2", 0), unix.EDQUOT)
	want(t, "exchange with another folder", l.rename(l.home, "f", d.NodeId, "f", unix.RENAME_EXCHANGE), unix.EDQUOT)
	want(t, "exchange", l.rename(l.home, "f", l.home, "new", unix.RENAME_EXCHANGE), nil)
	want(t, "replace", l.rename(l.home, "f", l.home, "new", 0), nil)
	l.exact()
}
