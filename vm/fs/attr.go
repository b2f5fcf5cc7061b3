package fs

import (
	"math"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
)

// modeBits are the mode bits that pass between guest and host. A set-user-ID file made by the guest
// would run as the host's user on the host, and one of the host could run as root in the guest.
const modeBits = 0o1777

// attributes returns the attributes of a file that the guest sees.
func (s *session) attributes(info *fileInfo, z *zone, caller *fuse.Caller) fuse.Attr {
	return fuse.Attr{
		Ino: s.shownIno(info.identity()), Size: info.Size, Blocks: info.Blocks, Blksize: info.Blksize,
		Atime: uint64(info.Atime.Sec), Atimensec: info.Atime.Nsec,
		Mtime: uint64(info.Mtime.Sec), Mtimensec: info.Mtime.Nsec,
		Ctime: uint64(info.Ctime.Sec), Ctimensec: info.Ctime.Nsec,
		Mode:  info.kind() | s.shownMode(info.Mode),
		Nlink: info.Nlink,
		Owner: s.owner(z, caller),
	}
}

// shownMode returns the mode that the guest sees. Under OwnershipEverybody, group and others get
// the owner's permissions, because the kernel may check against an owner that another user's
// look-up has replaced. The sticky bit is cleared, since it would keep users from removing files.
func (s *session) shownMode(mode uint32) uint32 {
	if s.policy != vm.OwnershipEverybody {
		return mode & modeBits
	}
	owner := mode & unix.S_IRWXU
	return owner | owner>>3 | owner>>6
}

// hostMode returns the mode for the host when the guest sets one. Under OwnershipEverybody it does
// not add write permission for group and others: the program may only copy the mode that it was
// shown for another file.
func (s *session) hostMode(old, set uint32) uint32 {
	const othersWrite = unix.S_IWGRP | unix.S_IWOTH
	if s.policy == vm.OwnershipEverybody {
		set &^= othersWrite &^ old
	}
	return set & modeBits
}

// shownIno returns the inode number that the guest sees. Numbers of other file systems mounted in
// the share are changed, because the guest sees one file system, where equal numbers mean the same
// file.
func (s *session) shownIno(id identity) uint64 {
	const spread = 0x9e3779b97f4a7c15 // odd, with bits all over
	return id.ino ^ (id.dev-s.dev.rules.root.dev)*spread
}

func (s *session) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, err := s.node(in.NodeId)
	if err != nil {
		return status(err)
	}
	var info fileInfo
	if err := s.stat(n, &info); err != nil {
		return status(err)
	}
	s.attrOut(n, &info, &in.Caller, out)
	return fuse.OK
}

func (s *session) attrOut(n *node, info *fileInfo, caller *fuse.Caller, out *fuse.AttrOut) {
	out.SetTimeout(s.attrTTL)
	out.Attr = s.attributes(info, s.zone(n), caller)
}

func (s *session) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, err := s.node(in.NodeId)
	if err != nil {
		return status(err)
	}
	owner := s.owner(s.zone(n), &in.Caller)
	if uid, ok := in.GetUID(); ok && uid != owner.Uid {
		return fuse.EPERM
	}
	if gid, ok := in.GetGID(); ok && gid != owner.Gid {
		return fuse.EPERM
	}
	if size, ok := in.GetSize(); ok {
		var h *handle
		if fh, ok := in.GetFh(); ok {
			if h, err = s.handle(fh); err != nil {
				return status(err)
			}
			defer h.file.release()
		}
		if err := s.truncate(n, h, size); err != nil {
			return status(err)
		}
	}
	var info fileInfo
	d, err := s.path(n, &info)
	if err != nil {
		return status(err)
	}
	defer d.release()
	if mode, ok := in.GetMode(); ok {
		if n.kind == unix.S_IFLNK {
			return fuse.Status(unix.EOPNOTSUPP)
		}
		if err := d.chmod(s.hostMode(info.Mode, mode)); err != nil {
			return status(err)
		}
	}
	if err := setTimes(d, in); err != nil {
		return status(err)
	}
	if err := d.stat(&info); err != nil {
		return status(err)
	}
	s.attrOut(n, &info, &in.Caller, out)
	return fuse.OK
}

// truncate sets a file's size, through h if that is open for writing, or else through a new
// descriptor.
func (s *session) truncate(n *node, h *handle, size uint64) error {
	switch {
	case n.kind == unix.S_IFDIR:
		return unix.EISDIR
	case n.kind != unix.S_IFREG:
		return unix.EINVAL
	case size > math.MaxInt64:
		return unix.EFBIG
	case h != nil && h.node == n && h.writable:
		return s.resize(n, h.file, int64(size))
	}
	var info fileInfo
	d, err := s.openFile(n, unix.O_WRONLY, &info)
	if err != nil {
		return err
	}
	defer d.release()
	return s.resize(n, d, int64(size))
}

// resize truncates an open file and updates the quota.
func (s *session) resize(n *node, d *descriptor, size int64) error {
	u := s.zone(n).usage
	defer u.shrink()()
	return u.changing(d, func() error {
		return retry(func() error { return unix.Ftruncate(d.fd, size) })
	})
}

// setTimes sets the file times that the guest asks for.
func setTimes(d *descriptor, in *fuse.SetAttrIn) error {
	if in.Valid&(fuse.FATTR_ATIME|fuse.FATTR_MTIME) == 0 {
		return nil
	}
	at := func(given, now uint32, sec uint64, nsec uint32) *fileTime {
		switch {
		case in.Valid&now != 0:
			t := time.Now()
			return &fileTime{t.Unix(), uint32(t.Nanosecond())}
		case in.Valid&given != 0:
			return &fileTime{int64(sec), min(nsec, uint32(time.Second-1))}
		}
		return nil
	}
	return d.utimes(at(fuse.FATTR_ATIME, fuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec), at(fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec))
}

// retry repeats f while a signal interrupts it.
func retry(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

// StatFs implements fuse.RawFileSystem, for df. The size of a subtree with limits is its limit.
// Space below the floor is not free.
func (s *session) StatFs(_ <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	n, err := s.node(in.NodeId)
	if err != nil {
		return status(err)
	}
	host, err := s.dev.root.space()
	if err != nil {
		return status(err)
	}
	block := int64(host.size)
	available := uint64(max(0, host.availableBytes()-s.dev.floor.min) / block)
	*out = fuse.StatfsOut{
		Blocks: host.blocks, Bfree: available, Bavail: available,
		Files: host.files, Ffree: min(host.freeFiles, uint64(max(0, s.dev.floor.spareFiles(&host)))),
		Bsize: uint32(block), Frsize: uint32(block), NameLen: maxName,
	}
	u := s.zone(n).usage
	if u == nil {
		return fuse.OK
	}
	maxBytes, bytesLeft, maxFiles, filesLeft := u.room()
	if maxBytes > 0 {
		out.Blocks = uint64(maxBytes / block)
		out.Bfree = min(available, uint64(bytesLeft/block))
		out.Bavail = out.Bfree
	}
	if maxFiles > 0 {
		out.Files, out.Ffree = uint64(maxFiles), uint64(filesLeft)
	}
	return fuse.OK
}
