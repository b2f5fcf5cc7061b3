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

// long is a name that takes as much room as one can.
func long(i int) string { return fmt.Sprintf("%0250d", i) }

// foldersTakeRoom skips a test where names take no room that could be limited.
func foldersTakeRoom(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for i := range 100 { // a file system may keep a few names for nothing
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

// within checks that a subtree holds no more than its limit, but for what the disk adds to a folder at once.
func (l limited) within() {
	l.t.Helper()
	if bytes, _, err := l.usage().count(l.dev.root); err != nil || bytes > l.maxBytes+64*kib {
		l.t.Errorf("%d bytes where %d are allowed, %v", bytes, l.maxBytes, err)
	}
}

// Names take room in their folder, and links and folders have some of their own: none of them goes
// beyond the limit, however many there may be.
func TestNamesTakeRoom(t *testing.T) {
	foldersTakeRoom(t)
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

// Nor do names that become longer where they are. What takes another's place in its folder needs no room.
func TestLongerNamesTakeRoom(t *testing.T) {
	foldersTakeRoom(t)
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
