package fs

import (
	"math"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

func (d *descriptor) preadv(v [][]byte, off int64) (int, error) { return unix.Preadv(d.fd, v, off) }

// overwrites reports whether a write that was refused with err only replaces existing data. A quota
// has counted that data already. The host's free space stays the same only on file systems that
// write in place.
func overwrites(file *descriptor, off, size int64, err error) bool {
	var s unix.Statfs_t
	inPlace := err == unix.EDQUOT ||
		unix.Fstatfs(file.fd, &s) == nil && (s.Type == unix.EXT4_SUPER_MAGIC || s.Type == unix.TMPFS_MAGIC)
	if !inPlace {
		return false
	}
	hole, err := unix.Seek(file.fd, off, unix.SEEK_HOLE)
	return err == nil && hole >= off+size
}

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
	if s.dev.opts.Lower {
		return fuse.ENOSYS
	}
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
