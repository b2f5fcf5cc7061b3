//go:build linux

package fs

import (
	"testing"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/smalldisk"
	"osaurus-sandbox/vm"
)

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
		c = newClient(t, vm.Share{Path: d.Dir, MinFree: disk}, Options{})
		e := must(c.walk("f"))(t)
		fh := must(c.open(e.NodeId, unix.O_RDWR))(t).Fh
		want(t, "write", c.write(fh, 0, []byte("x"), 0), unix.ENOSPC)
		want(t, "create", second(c.create(root, "g")), unix.ENOSPC)
		want(t, "mkdir", second(c.mkdir(root, "g")), unix.ENOSPC)
		want(t, "unlink", c.unlink(root, "f"), nil)
		if out := c.statfs(root); out.Bavail != 0 {
			t.Errorf("df shows %d free", out.Bavail)
		}
	})
}
