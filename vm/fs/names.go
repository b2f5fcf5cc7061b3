package fs

import (
	"cmp"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// maxTarget is the longest target of a symbolic link: PATH_MAX without the final zero.
const maxTarget = 4095

// visible reports whether the guest may see files of a kind.
func visible(kind uint32) bool {
	return kind == unix.S_IFREG || kind == unix.S_IFDIR || kind == unix.S_IFLNK
}

// lookup looks up a name in the folder dir and returns its node.
func (s *session) lookup(parent *node, dir *descriptor, name string, caller *fuse.Caller, out *fuse.EntryOut) (*node, error) {
	var info fileInfo
	if err := statAt(dir, name, &info); err != nil {
		return nil, err
	}
	return s.entry(parent, name, &info, caller, out)
}

// entry returns the node of a file and fills in the guest's entry for it.
func (s *session) entry(parent *node, name string, info *fileInfo, caller *fuse.Caller, out *fuse.EntryOut) (*node, error) {
	if !visible(info.kind()) {
		return nil, unix.ENOENT
	}
	n, err := s.enter(parent, name, info.identity(), info.kind())
	if err != nil {
		return nil, err
	}
	*out = fuse.EntryOut{NodeId: n.id, Attr: s.attributes(info, s.zone(n), caller)}
	out.SetEntryTimeout(s.nameTTL)
	out.SetAttrTimeout(s.attrTTL)
	return n, nil
}

// at checks name and returns the node and descriptor of its folder.
func (s *session) at(id uint64, name string) (*node, *descriptor, error) {
	if err := checkName(name); err != nil {
		return nil, nil, err
	}
	parent, err := s.node(id)
	if err != nil {
		return nil, nil, err
	}
	dir, err := s.folder(parent)
	return parent, dir, err
}

func (s *session) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	parent, dir, err := s.at(in.NodeId, name)
	if err != nil {
		return status(err)
	}
	defer dir.release()
	_, err = s.lookup(parent, dir, name, &in.Caller, out)
	if err == unix.ENOENT && s.nameTTL > 0 {
		// A negative entry is valid as long as a positive one.
		*out = fuse.EntryOut{}
		out.SetEntryTimeout(s.nameTTL)
		return fuse.OK
	}
	return status(err)
}

// makeIn creates a file with f, counts it and returns its entry. It sets mode regardless of this
// process's umask.
func (s *session) makeIn(in *fuse.InHeader, name string, mode uint32, out *fuse.EntryOut, f func(dir *descriptor) error) fuse.Status {
	parent, dir, err := s.at(in.NodeId, name)
	if err != nil {
		return status(err)
	}
	defer dir.release()
	var info fileInfo
	err = s.counted(parent, dir, name, &info, func() error {
		if err := f(dir); err != nil {
			return err
		}
		err := statAt(dir, name, &info)
		if err != nil || info.kind() == unix.S_IFLNK || info.Mode&modeBits == mode {
			return err
		}
		return s.setMode(dir, name, mode, &info)
	})
	if err == nil {
		_, err = s.entry(parent, name, &info, &in.Caller, out)
	}
	return status(err)
}

// setMode sets the mode of a new file.
func (s *session) setMode(dir *descriptor, name string, mode uint32, info *fileInfo) error {
	d, err := openAt(dir, name, oPath, 0)
	if err != nil {
		return err
	}
	defer d.release()
	if err := d.chmod(mode); err != nil {
		return err
	}
	return d.stat(info)
}

// counted creates a file in a folder with f, which fills in info, if the limits allow it. The name
// counts for the folder's quota, which differs from the file's for the root folder of a limited
// subtree.
func (s *session) counted(parent *node, dir *descriptor, name string, info *fileInfo, f func() error) error {
	zone := s.zone(parent)
	around, u := zone.usage, zone.of(name).usage
	files := int64(1)
	defer around.lockNames()()
	if u != around { // lock order: outer first
		defer u.lockNames()()
		files = 0
	}
	if err := s.mayAdd(around, 0); err != nil {
		return err
	}
	if err := s.mayAdd(u, files); err != nil {
		return err
	}
	err := around.changing(dir, f)
	if info.Ino != 0 {
		u.added(info, files)
	}
	return err
}

func (s *session) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	mode := s.hostMode(0, in.Mode)
	return s.makeIn(&in.InHeader, name, mode, out, func(dir *descriptor) error {
		return unix.Mkdirat(dir.fd, name, mode)
	})
}

// Mknod implements fuse.RawFileSystem for regular files only.
func (s *session) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	if kind := in.Mode & unix.S_IFMT; kind != 0 && kind != unix.S_IFREG {
		return fuse.EPERM
	}
	mode := s.hostMode(0, in.Mode)
	return s.makeIn(&in.InHeader, name, mode, out, func(dir *descriptor) error {
		d, err := openAt(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, mode)
		d.release()
		return err
	})
}

// Symlink implements fuse.RawFileSystem. The target is not checked, since this process never
// follows it.
func (s *session) Symlink(_ <-chan struct{}, in *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	if len(target) > maxTarget {
		return fuse.Status(unix.ENAMETOOLONG)
	}
	return s.makeIn(in, name, 0, out, func(dir *descriptor) error {
		return unix.Symlinkat(target, dir.fd, name)
	})
}

func (s *session) Readlink(_ <-chan struct{}, in *fuse.InHeader) ([]byte, fuse.Status) {
	n, err := s.node(in.NodeId)
	if err != nil {
		return nil, status(err)
	}
	if n.kind != unix.S_IFLNK {
		return nil, fuse.EINVAL
	}
	dir, name, err := s.place(n)
	if err != nil {
		return nil, status(err)
	}
	defer dir.release()
	b := make([]byte, maxTarget+1)
	size, err := unix.Readlinkat(dir.fd, name, b)
	if err == nil {
		var info fileInfo
		err = s.stat(n, &info) // it is still there
	}
	return b[:max(size, 0)], status(stale(err))
}

func (s *session) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	n, err := s.node(in.Oldnodeid)
	if err != nil {
		return status(err)
	}
	if n.kind == unix.S_IFDIR {
		return fuse.EPERM
	}
	parent, dir, err := s.at(in.NodeId, name)
	if err != nil {
		return status(err)
	}
	defer dir.release()
	zone := s.zone(n)
	if err := mayLink(zone, s.zone(parent).of(name)); err != nil {
		return status(err)
	}
	u := zone.usage
	defer u.lockNames()()
	if err := s.mayAdd(u, 0); err != nil {
		return status(err)
	}
	from, old, err := s.place(n)
	if err != nil {
		return status(err)
	}
	defer from.release()
	if err := u.changing(dir, func() error { return unix.Linkat(from.fd, old, dir.fd, name, 0) }); err != nil {
		return status(stale(err))
	}
	is, err := s.lookup(parent, dir, name, &in.Caller, out)
	if err == nil && is != n { // another file has come to its place meanwhile
		s.Forget(is.id, 1)
		err = cmp.Or(unix.Unlinkat(dir.fd, name, 0), error(unix.ESTALE))
	}
	return status(err)
}

func (s *session) Unlink(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return s.remove(in, name, 0)
}

func (s *session) Rmdir(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return s.remove(in, name, unix.AT_REMOVEDIR)
}

func (s *session) remove(in *fuse.InHeader, name string, flags int) fuse.Status {
	parent, dir, err := s.at(in.NodeId, name)
	if err != nil {
		return status(err)
	}
	defer dir.release()
	zone := s.zone(parent).of(name)
	if zone.fixed {
		return fuse.EBUSY
	}
	var d *descriptor
	defer func() { d.release() }() // after names is unlocked: freeing the file may take long
	defer zone.usage.lockNames()()
	var info fileInfo
	d, err = openAt(dir, name, oPath, 0)
	if err != nil {
		return status(err)
	}
	if err := d.stat(&info); err != nil {
		return status(err)
	}
	t, err := s.follow(zone.usage, d, &info)
	if err != nil {
		return status(err)
	}
	defer zone.usage.untrack(t)
	if err := zone.usage.changing(dir, func() error { return unix.Unlinkat(dir.fd, name, flags) }); err != nil {
		return status(err)
	}
	zone.usage.removed(&info)
	s.removed(parent, name, d, &info, zone.usage)
	return fuse.OK
}

func (s *session) Rename(_ <-chan struct{}, in *fuse.RenameIn, oldName, newName string) fuse.Status {
	if in.Flags&^(renameNoReplace|renameExchange) != 0 {
		return fuse.EINVAL
	}
	from, fromDir, err := s.at(in.NodeId, oldName)
	if err != nil {
		return status(err)
	}
	defer fromDir.release()
	to, toDir, err := s.at(in.Newdir, newName)
	if err != nil {
		return status(err)
	}
	defer toDir.release()
	fromZone, toZone := s.zone(from).of(oldName), s.zone(to).of(newName)
	if err := mayMove(fromZone, toZone); err != nil {
		return status(err)
	}
	u := fromZone.usage
	defer u.lockNames()()
	exchange := in.Flags&renameExchange != 0
	taken := exchange
	var moved, replaced fileInfo
	var victim *descriptor
	if !exchange {
		if err := statAt(fromDir, oldName, &moved); err != nil {
			return status(err)
		}
		if d, err := openAt(toDir, newName, oPath, 0); err == nil {
			defer d.release()
			taken = true
			if d.stat(&replaced) == nil && replaced.identity() != moved.identity() {
				victim = d
				t, err := s.follow(u, d, &replaced)
				if err != nil {
					return status(err)
				}
				defer u.untrack(t)
			}
		}
	}
	// A name needs space in its new folder, and many file systems do not shrink the old one.
	// Replacing a file in the same folder needs none, so that it works when the quota is full.
	if from != to || !taken {
		if err := s.mayAdd(u, 0); err != nil {
			return status(err)
		}
	}
	if err := u.changing(fromDir, func() error {
		return u.changing(toDir, func() error {
			return renameAt(fromDir, oldName, toDir, newName, in.Flags)
		})
	}); err != nil {
		return status(err)
	}
	if victim != nil {
		u.removed(&replaced)
		s.removed(to, newName, victim, &replaced, u)
	}
	u.renamed()
	s.relocate(to, toDir, newName)
	if exchange {
		s.relocate(from, fromDir, oldName)
	}
	if fromZone != toZone {
		s.dev.rules.renew() // files in a moved folder may have another owner now
	}
	return fuse.OK
}

// relocate records the new place of a file.
func (s *session) relocate(parent *node, dir *descriptor, name string) {
	var info fileInfo
	if statAt(dir, name, &info) != nil {
		return // gone again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.byID[info.identity()]; n != nil {
		s.placeLocked(n, parent, name)
	}
}
