//go:build linux

package fs

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/smalldisk"
	"osaurus-sandbox/vm"
)

// A disk without free inodes is full.
func TestFloorOfFiles(t *testing.T) {
	const all = 1000
	smalldisk.Run(t, fmt.Sprint("8m,nr_inodes=", all), func(d *smalldisk.Disk) {
		c := newClient(t, vm.Share{Path: d.Dir, MinFree: 1 << 20}, Options{})
		for n := 0; ; n++ {
			_, err := c.mkdir(root, fmt.Sprint(n))
			if err == nil && n < all {
				continue
			}
			want(t, "one more folder", err, unix.ENOSPC)
			want(t, "one more file", second(c.create(root, "f")), unix.ENOSPC)
			var s unix.Statfs_t
			if err := unix.Statfs(d.Dir, &s); err != nil || s.Ffree != all/floorFiles {
				t.Errorf("the host can have %d files more: %v", s.Ffree, err)
			}
			if out := c.statfs(root); out.Ffree != 0 {
				t.Errorf("df -i shows %d free", out.Ffree)
			}
			return
		}
	})
}

func TestFloor(t *testing.T) {
	const disk, room = 8 << 20, 1 << 20
	smalldisk.Run(t, "8m", func(d *smalldisk.Disk) {
		c := newClient(t, vm.Share{Path: d.Dir, MinFree: disk - room}, Options{})
		f := must(c.create(root, "f"))(t)
		want(t, "write", c.write(f.Fh, 0, make([]byte, 64*kib), 0), nil)
		if out := c.statfs(root); out.Bavail*uint64(out.Frsize) > room-64*kib {
			t.Errorf("df shows %d free", out.Bavail*uint64(out.Frsize))
		}
		want(t, "reserve too much", c.fallocate(f.Fh, 0, room+1, 0), unix.ENOSPC)
		want(t, "reserve what there is", c.fallocate(f.Fh, 0, room/2, 0), nil)
		sub := must(c.mkdir(root, "d"))(t)
		want(t, "create", second(c.create(root, "new")), nil)
		want(t, "rename", c.rename(root, "new", sub.NodeId, "new", 0), nil)
		want(t, "rename", c.rename(sub.NodeId, "new", root, "new", 0), nil)
		c = newClient(t, vm.Share{Path: d.Dir, MinFree: disk}, Options{})
		e := must(c.walk("f"))(t)
		fh := must(c.open(e.NodeId, unix.O_RDWR))(t).Fh
		want(t, "write", c.write(fh, room, []byte("x"), 0), unix.ENOSPC)
		want(t, "write over what is there and more", c.write(fh, 63*kib, make([]byte, room), 0), unix.ENOSPC)
		want(t, "write over what is there", c.write(fh, 0, make([]byte, 64*kib), 0), nil)
		want(t, "punch a hole", c.fallocate(fh, 0, 8*kib, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE), nil)
		want(t, "write into the hole", c.write(fh, 0, []byte("x"), 0), unix.ENOSPC)
		want(t, "create", second(c.create(root, "g")), unix.ENOSPC)
		want(t, "mkdir", second(c.mkdir(root, "g")), unix.ENOSPC)
		sub = must(c.walk("d"))(t)
		want(t, "rename to another folder", c.rename(root, "f", sub.NodeId, "f", 0), unix.ENOSPC)
		want(t, "rename", c.rename(root, "f", root, "g", 0), unix.ENOSPC)
		want(t, "replace", c.rename(root, "new", root, "f", 0), nil)
		want(t, "unlink", c.unlink(root, "f"), nil)
		if out := c.statfs(root); out.Bavail != 0 {
			t.Errorf("df shows %d free", out.Bavail)
		}
	})
}
