package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

func (s *session) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n, err := s.node(in.NodeId)
	if err != nil {
		return status(err)
	}
	if err := s.mayOpen(in.Uid); err != nil {
		return status(err)
	}
	dir, err := s.folder(n)
	if err != nil {
		return status(err)
	}
	defer dir.release()
	fd, err := unix.Openat(dir.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return status(err)
	}
	out.Fh, err = s.openHandle(n, newDescriptor(fd), false, in.Uid)
	return status(err)
}

// list calls add for the entries from in.Offset on, until add returns false.
func (s *session) list(in *fuse.ReadIn, add func(*handle, fuse.DirEntry) bool) error {
	h, err := s.handle(in.Fh)
	if err != nil {
		return err
	}
	defer h.file.release()
	if h.node.kind != unix.S_IFDIR {
		return unix.ENOTDIR
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	l := &h.listing
	// At the start, what was read before may be long out of date.
	if off := int64(in.Offset); off != l.off || off == 0 {
		if err := l.seek(h.file, off); err != nil {
			return err
		}
		l.off = off
	}
	for {
		e, ok, err := l.next(h.file)
		if err != nil || !ok {
			return err
		}
		e.Ino = s.shownIno(identity{dev: h.node.identity.dev, ino: e.Ino})
		if shown(h.file, &e) && !add(h, e) {
			return nil
		}
		l.take(&e)
	}
}

// shown reports whether the guest may see an entry.
func shown(dir *descriptor, e *fuse.DirEntry) bool {
	if e.Mode&unix.S_IFMT != 0 {
		return visible(e.Mode & unix.S_IFMT)
	}
	var info fileInfo // a file system without types in entries
	if statAt(dir, e.Name, &info) != nil || !visible(info.kind()) {
		return false
	}
	e.Mode = info.kind()
	return true
}
