//go:build linux

package process

import (
	"bytes"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// cgroup is a group of the kernel's that holds a child and all that it starts. Making one and
// removing it takes the kernel as long as a small program, so an empty one may serve the
// next child.
type cgroup struct {
	path string
	dir  int      // descriptor of it
	told *os.File // cgroup.events, from when it was first asked; nil before
}

// makeCgroup makes a group and opens it.
func makeCgroup(path string) (*cgroup, error) {
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, err
	}
	dir, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = unix.Rmdir(path)
		return nil, err
	}
	return &cgroup{path: path, dir: dir}, nil
}

// kill kills all that is in the group. It fails only when the group is gone, and with it all
// that was in it.
func (g *cgroup) kill() { _ = os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0) }

// empty reports whether nothing runs in the group: nothing will then, until a child is put there.
func (g *cgroup) empty() bool {
	if g.told == nil {
		var err error
		if g.told, err = os.Open(filepath.Join(g.path, "cgroup.events")); err != nil {
			return false
		}
	}
	var b [64]byte // two short lines
	n, _ := g.told.ReadAt(b[:], 0)
	return bytes.HasPrefix(b[:n], []byte("populated 0\n"))
}

// remove removes the group. It fails with EBUSY while something runs there.
func (g *cgroup) remove() error {
	err := unix.Rmdir(g.path)
	if err != unix.EBUSY {
		g.close()
	}
	return err
}

func (g *cgroup) close() {
	if g.dir != none {
		_ = unix.Close(g.dir)
		g.dir = none
	}
	if g.told != nil {
		_ = g.told.Close()
	}
}

// groupFor is a group for a new child: an empty one that is kept for its place, or a new one.
func (k *Keeper) groupFor(p Place, path string) (*cgroup, error) {
	if ended(p) != nil {
		k.mu.Lock()
		spare := k.spares[p]
		delete(k.spares, p)
		k.mu.Unlock()
		if spare != nil {
			return spare, nil
		}
	}
	return makeCgroup(path)
}

// keep takes an empty group for the next child of a place, and reports whether it does. It
// is kept while a porter waits for that child: whoever is the last of them there removes it.
func (k *Keeper) keep(p Place, g *cgroup) bool {
	if ended(p) == nil || !g.empty() {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.porters[p]; r == nil || r.left() || k.spares[p] != nil {
		return false
	}
	k.spares[p] = g
	return true
}

// leave has a porter go, and with the last of a place what is kept there.
func (k *Keeper) leave(p Place, r *porter) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.porters[p] == r {
		delete(k.porters, p)
	}
	if g := k.spares[p]; g != nil && k.porters[p] == nil {
		delete(k.spares, p)
		_ = g.remove()
	}
}
