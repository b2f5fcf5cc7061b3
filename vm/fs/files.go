//go:build linux

package fs

import (
	"math"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// openFlags returns the open flags for the host. O_APPEND is left out because each WRITE has the
// current value, and O_TRUNC because the file must be checked first.
func openFlags(flags uint32) (host int, writable bool, err error) {
	access := int(flags) & unix.O_ACCMODE
	if access == unix.O_ACCMODE {
		return 0, false, unix.EINVAL
	}
	return access | int(flags)&(unix.O_SYNC|unix.O_DSYNC), access != unix.O_RDONLY, nil
}

func (s *session) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n, err := s.node(in.NodeId)
	if err != nil {
		return status(err)
	}
	return status(s.open(n, in.Flags, in.Uid, out))
}

func (s *session) open(n *node, flags, user uint32, out *fuse.OpenOut) error {
	host, writable, err := openFlags(flags)
	switch {
	case err != nil:
		return err
	case n.kind == unix.S_IFDIR:
		return unix.EISDIR
	case n.kind != unix.S_IFREG:
		return unix.ELOOP
	case s.dev.share.ReadOnly && (writable || flags&unix.O_TRUNC != 0):
		return unix.EROFS
	}
	if err := s.mayOpen(user); err != nil {
		return err
	}
	var info fileInfo
	d, err := s.openFile(n, host, &info)
	if err != nil {
		return err
	}
	if flags&unix.O_TRUNC != 0 {
		if writable {
			err = s.resize(n, d, 0)
		} else {
			err = s.truncate(n, nil, 0)
		}
		if err != nil {
			d.release()
			return err
		}
	}
	if out.Fh, err = s.openHandle(n, d, writable, user); err != nil {
		return err
	}
	if s.cacheHolds(n, &info) && flags&unix.O_TRUNC == 0 {
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	}
	return nil
}

func (s *session) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	host, writable, err := openFlags(in.Flags)
	if err != nil {
		return status(err)
	}
	parent, dir, err := s.at(in.NodeId, name)
	if err != nil {
		return status(err)
	}
	defer dir.release()
	if err := s.mayOpen(in.Uid); err != nil {
		return status(err)
	}
	// Always O_EXCL: an existing file may be of any kind.
	var d *descriptor
	var info fileInfo
	mode := s.hostMode(0, in.Mode)
	err = s.counted(parent, dir, name, &info, func() (err error) {
		d, err = openAt(dir, name, host|unix.O_CREAT|unix.O_EXCL|unix.O_NOCTTY, mode)
		if err != nil {
			return err
		}
		if err = d.stat(&info); err == nil && uint32(info.Mode)&modeBits != mode {
			// Undo this process's umask.
			if err = unix.Fchmod(d.fd, mode); err == nil {
				err = d.stat(&info)
			}
		}
		return err
	})
	if err == unix.EEXIST && in.Flags&unix.O_EXCL == 0 {
		n, err := s.lookup(parent, dir, name, &in.Caller, &out.EntryOut)
		if err == nil {
			if err = s.open(n, in.Flags, in.Uid, &out.OpenOut); err != nil {
				s.Forget(n.id, 1)
			}
		}
		return status(err)
	}
	var n *node
	if err == nil {
		n, err = s.entry(parent, name, &info, &in.Caller, &out.EntryOut)
	}
	if err != nil {
		d.release()
		return status(err)
	}
	if out.Fh, err = s.openHandle(n, d, writable, in.Uid); err != nil {
		s.Forget(n.id, 1) // the guest does not get this node
		return status(err)
	}
	s.cacheHolds(n, &info)
	return fuse.OK
}

func (s *session) Release(_ <-chan struct{}, in *fuse.ReleaseIn) { s.removeHandle(in.Fh) }

// fsyncDataOnly is FUSE's flag for fdatasync.
const fsyncDataOnly = 1

func (s *session) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	h, err := s.handle(in.Fh)
	if err != nil {
		return status(err)
	}
	defer h.file.release()
	if in.FsyncFlags&fsyncDataOnly != 0 {
		return status(unix.Fdatasync(h.file.fd))
	}
	return status(unix.Fsync(h.file.fd))
}

func (s *session) FsyncDir(c <-chan struct{}, in *fuse.FsyncIn) fuse.Status { return s.Fsync(c, in) }

// Fallocate implements fuse.RawFileSystem. It reserves space, punches a hole or writes zeros.
func (s *session) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	size := int64(in.Length)
	switch in.Mode {
	case 0, unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_ZERO_RANGE, unix.FALLOC_FL_ZERO_RANGE | unix.FALLOC_FL_KEEP_SIZE:
	case unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE:
		size = 0
	default:
		return fuse.Status(unix.EOPNOTSUPP)
	}
	if in.Offset > math.MaxInt64 || in.Length == 0 || in.Length > math.MaxInt64-in.Offset {
		return fuse.EINVAL
	}
	return status(s.grow(in.Fh, int64(in.Offset), size, func(h *handle) error {
		return retry(func() error { return unix.Fallocate(h.file.fd, in.Mode, int64(in.Offset), int64(in.Length)) })
	}))
}

// Lseek implements fuse.RawFileSystem for SEEK_DATA and SEEK_HOLE. The guest's kernel handles the
// rest.
func (s *session) Lseek(_ <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	h, err := s.handle(in.Fh)
	if err != nil {
		return status(err)
	}
	defer h.file.release()
	if in.Whence != unix.SEEK_DATA && in.Whence != unix.SEEK_HOLE || h.node.kind != unix.S_IFREG {
		return fuse.EINVAL
	}
	off, err := unix.Seek(h.file.fd, int64(in.Offset), int(in.Whence))
	out.Offset = uint64(off)
	return status(err)
}

// maxCopy bounds one COPY_FILE_RANGE, so that it is answered soon.
const maxCopy = 64 << 20

func (s *session) CopyFileRange(_ <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	if in.OffIn > math.MaxInt64-maxCopy || in.OffOut > math.MaxInt64-maxCopy || in.Flags != 0 {
		return 0, fuse.EINVAL
	}
	src, err := s.handle(in.FhIn)
	if err != nil {
		return 0, status(err)
	}
	defer src.file.release()
	size := int64(min(in.Len, maxCopy))
	var n int
	err = s.grow(in.FhOut, int64(in.OffOut), size, func(dst *handle) (err error) {
		from, to := int64(in.OffIn), int64(in.OffOut)
		n, err = unix.CopyFileRange(src.file.fd, &from, dst.file.fd, &to, int(size), 0)
		return err
	})
	return uint32(max(n, 0)), partly(n, err)
}
