package fs

import (
	"math"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// readResult reads a file directly into guest memory.
type readResult struct {
	file *descriptor
	off  int64
	size int
}

func (r *readResult) Size() int { return r.size }
func (r *readResult) Done()     { r.file.release() }

// Bytes implements fuse.ReadResult. Only Readv is called.
func (r *readResult) Bytes([]byte) ([]byte, fuse.Status) { return nil, fuse.ENOSYS }

func (r *readResult) Readv(dst [][]byte) (int, fuse.Status) {
	n, err := vectored(dst, r.off, r.file.preadv)
	return n, partly(n, err)
}

// vectored calls f for parts of v within the limit of one system call.
func vectored(v [][]byte, off int64, f func([][]byte, int64) (int, error)) (total int, err error) {
	for len(v) > 0 {
		part := v[:min(len(v), maxVectors)]
		want := 0
		for _, b := range part {
			want += len(b)
		}
		n, err := f(part, off)
		if err == unix.EINTR {
			continue
		}
		if n > 0 {
			total, off = total+n, off+int64(n)
		}
		if err != nil || n < want {
			return total, err // short: end of file, or the guest's next call gets the error
		}
		v = v[len(part):]
	}
	return total, nil
}

// partly returns the error only if n is 0.
func partly(n int, err error) fuse.Status {
	if n > 0 {
		return fuse.OK
	}
	return status(err)
}

func (s *session) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	file, err := s.readable(in)
	if err != nil {
		return nil, status(err)
	}
	return &readResult{file, int64(in.Offset), int(in.Size)}, fuse.OK
}

// readable returns the file of a READ, which the caller must release.
func (s *session) readable(in *fuse.ReadIn) (*descriptor, error) {
	if !s.dev.opts.Lower {
		h, err := s.handle(in.Fh)
		if err != nil {
			return nil, err
		}
		return h.file, nil
	}
	n, err := s.node(in.NodeId)
	if err != nil {
		return nil, err
	}
	var info fileInfo
	return s.openFile(n, unix.O_RDONLY, &info)
}

// Writev implements fuse.RawFileSystem: data is guest memory.
func (s *session) Writev(_ <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	if in.Offset > atEnd {
		return 0, fuse.Status(unix.EFBIG)
	}
	size := 0
	for _, b := range data {
		size += len(b)
	}
	if size != int(in.Size) {
		return 0, fuse.EINVAL
	}
	// Append only if O_APPEND is set and this is not the write-back of a mapped page, which has an
	// offset.
	appends := in.Flags&linuxAppend != 0 && in.WriteFlags&fuse.WRITE_CACHE == 0
	at := int64(in.Offset)
	if appends {
		at = atEnd
	}
	var n int
	err := s.grow(in.Fh, at, int64(size), func(h *handle) (err error) {
		n, err = vectored(data, int64(in.Offset), func(v [][]byte, off int64) (int, error) {
			return h.file.pwritev(v, off, appends)
		})
		return err
	})
	return uint32(n), partly(n, err)
}

// atEnd is an offset beyond the end of any file.
const atEnd = math.MaxInt64 - maxMessage

// grow runs f, which may write size bytes at off to an open file, if the limits allow that, and
// updates the quota.
func (s *session) grow(fh uint64, off, size int64, f func(*handle) error) error {
	h, err := s.handle(fh)
	if err != nil {
		return err
	}
	defer h.file.release()
	u := s.zone(h.node).usage
	t, err := h.charge(u)
	if err != nil {
		return err
	}
	if size == 0 { // it frees space
		defer u.shrink()()
	}
	if err := s.reserve(u, size); err != nil {
		if !overwrites(h.file, off, size, err) {
			return err
		}
		size = 0
	}
	defer u.settle(t, h.file, size)
	return f(h)
}
