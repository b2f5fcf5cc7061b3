package fs

import (
	"math"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// handle is a file or folder that the guest has open.
type handle struct {
	node     *node
	file     *descriptor
	writable bool

	mu      sync.Mutex
	closed  bool
	usage   *usage // that tracked belongs to
	tracked *tracked
	listing listing // of a folder
}

func (h *handle) close() {
	h.mu.Lock()
	h.usage.untrack(h.tracked)
	h.usage, h.tracked, h.closed = nil, nil, true
	h.mu.Unlock()
	h.file.release()
}

// charge returns where the file's growth counts, which changes with the rules.
func (h *handle) charge(u *usage) (*tracked, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, unix.EBADF
	}
	if h.usage != u {
		t, err := u.track(h.file)
		if err != nil {
			return nil, err
		}
		h.usage.untrack(h.tracked)
		h.usage, h.tracked = u, t
	}
	return h.tracked, nil
}

// handle returns an open file; done must be called when it is no longer used.
func (s *session) handle(fh uint64) (h *handle, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h = s.handles[fh]
	if h == nil {
		return nil, nil, unix.EBADF
	}
	h.file.acquire()
	return h, h.file.release, nil
}

// mayOpen refuses one open file too many.
func (s *session) mayOpen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.handles) >= s.maxHandles {
		return unix.ENFILE
	}
	return nil
}

// addHandle gives an open file a number. It takes d over.
func (s *session) addHandle(n *node, d *descriptor, writable bool) (*handle, uint64) {
	h := &handle{node: n, file: d, writable: writable}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastFH++
	s.handles[s.lastFH] = h
	if n.open == nil {
		n.open = map[*handle]struct{}{}
	}
	n.open[h] = struct{}{}
	return h, s.lastFH
}

// removeHandle closes an open file when the requests on it are done.
func (s *session) removeHandle(fh uint64) {
	s.mu.Lock()
	h := s.handles[fh]
	delete(s.handles, fh)
	if h != nil {
		if delete(h.node.open, h); len(h.node.open) == 0 {
			h.node.open = nil
		}
	}
	s.mu.Unlock()
	if h != nil {
		h.close()
	}
}

// stamp tells whether a file's data has changed.
type stamp struct {
	size                uint64
	mtime, ctime, taken int64
}

// settled is how old a change must be for the file's times to tell it from the
// next: longer than the coarsest clock tick that Linux stamps files with.
const settled = int64(20 * time.Millisecond)

func nanos(t unix.StatxTimestamp) int64 { return t.Sec*int64(time.Second) + int64(t.Nsec) }

// cacheHolds reports whether the guest may keep the pages of a file that it
// still has from when it was last open.
func (s *session) cacheHolds(n *node, info *fileInfo) bool {
	now := stamp{info.Size, nanos(info.Mtime), nanos(info.Ctime), time.Now().UnixNano()}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := n.stamp
	n.stamp = now
	return s.nameTTL > 0 && old.size == now.size && old.mtime == now.mtime && old.ctime == now.ctime && old.taken-old.ctime > settled
}

// openFlags are those of the guest's open flags that mean something here.
// O_APPEND is in each WRITE as well, for it may change; O_TRUNC comes after the
// check that the file is the right one.
func openFlags(flags uint32) (host int, writable bool, err error) {
	access := int(flags) & unix.O_ACCMODE
	if access == unix.O_ACCMODE {
		return 0, false, unix.EINVAL
	}
	return access | int(flags)&(unix.O_SYNC|unix.O_DSYNC), access != unix.O_RDONLY, nil
}

// Open implements fuse.RawFileSystem.
func (s *session) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n, err := s.node(in.NodeId)
	if err != nil {
		return status(err)
	}
	return status(s.open(n, in.Flags, out))
}

func (s *session) open(n *node, flags uint32, out *fuse.OpenOut) error {
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
	if err := s.mayOpen(); err != nil {
		return err
	}
	var info fileInfo
	d, err := s.openNode(n, host, &info)
	if err == unix.ESTALE {
		d, err = s.reopen(n, host, &info)
	}
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
	_, out.Fh = s.addHandle(n, d, writable)
	if s.cacheHolds(n, &info) && flags&unix.O_TRUNC == 0 {
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	}
	return nil
}

// reopen opens a file that has no name any more but is open already: the guest
// does that through its /proc/self/fd.
func (s *session) reopen(n *node, flags int, info *fileInfo) (*descriptor, error) {
	old := s.opened(n)
	if old == nil {
		return nil, unix.ESTALE
	}
	defer old.release()
	fd, err := unix.Open(procPath(old), flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	d := newDescriptor(fd)
	return d, d.stat(info)
}

// Create implements fuse.RawFileSystem.
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
	if err := s.mayOpen(); err != nil {
		return status(err)
	}
	// Always exclusively: what is there already may be anything.
	var d *descriptor
	mode := in.Mode & modeBits
	err = s.counted(parent, name, func() (err error) {
		d, err = s.dev.host.openAt(dir, name, host|unix.O_CREAT|unix.O_EXCL|unix.O_NOCTTY, mode)
		return err
	})
	if err == unix.EEXIST && in.Flags&unix.O_EXCL == 0 {
		n, err := s.lookup(parent, dir, name, &in.Caller, &out.EntryOut)
		if err == nil {
			if err = s.open(n, in.Flags, &out.OpenOut); err != nil {
				s.Forget(n.id, 1)
			}
		}
		return status(err)
	}
	if err != nil {
		return status(err)
	}
	var info fileInfo
	if err = d.stat(&info); err == nil && uint32(info.Mode)&modeBits != mode {
		// This process's umask is not the guest's.
		if err = unix.Fchmod(d.fd, mode); err == nil {
			err = d.stat(&info)
		}
	}
	var n *node
	if err == nil {
		n, err = s.entry(parent, name, &info, &in.Caller, &out.EntryOut)
	}
	if err != nil {
		d.release()
		return status(err)
	}
	_, out.Fh = s.addHandle(n, d, writable)
	s.cacheHolds(n, &info)
	return fuse.OK
}

// Flush implements fuse.RawFileSystem: there is nothing to flush, and the
// guest's kernel need not ask again.
func (s *session) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.ENOSYS }

// Release implements fuse.RawFileSystem.
func (s *session) Release(_ <-chan struct{}, in *fuse.ReleaseIn) { s.removeHandle(in.Fh) }

// readResult reads a file straight into guest memory. go-fuse recognises Readv
// by the method set, outside of its protection against panics.
type readResult struct {
	h    *handle
	off  int64
	size int
	done func()
}

func (r *readResult) Size() int { return r.size }
func (r *readResult) Done()     { r.done() }

func (r *readResult) Bytes(buf []byte) ([]byte, fuse.Status) {
	n, st := r.Readv([][]byte{buf[:min(len(buf), r.size)]})
	return buf[:n], st
}

func (r *readResult) Readv(dst [][]byte) (int, fuse.Status) {
	n, err := vectored(dst, r.off, func(v [][]byte, off int64) (int, error) { return unix.Preadv(r.h.file.fd, v, off) })
	return n, partly(n, err)
}

// maxVectors is Linux's limit for one system call (UIO_MAXIOV).
const maxVectors = 1024

// vectored moves as much of v as possible, a system call's worth at a time.
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
			return total, err // short: the end, or the guest's next call tells why
		}
		v = v[len(part):]
	}
	return total, nil
}

// partly reports an error only if nothing was done before it.
func partly(n int, err error) fuse.Status {
	if n > 0 {
		return fuse.OK
	}
	return status(err)
}

// Read implements fuse.RawFileSystem.
func (s *session) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	h, done, err := s.handle(in.Fh)
	if err != nil {
		return nil, status(err)
	}
	return &readResult{h, int64(in.Offset), int(in.Size), done}, fuse.OK
}

// Write implements fuse.RawFileSystem.
func (s *session) Write(c <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	return s.Writev(c, in, [][]byte{data})
}

// Writev implements fuse.RawFileSystem: data is guest memory.
func (s *session) Writev(_ <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	if in.Offset > math.MaxInt64-maxMessage {
		return 0, fuse.Status(unix.EFBIG)
	}
	size := 0
	for _, b := range data {
		size += len(b)
	}
	// Pages of a mapped file have a place of their own; so has what was opened
	// without O_APPEND or lost it since.
	flags := 0
	if in.Flags&unix.O_APPEND != 0 && in.WriteFlags&fuse.WRITE_CACHE == 0 {
		flags = unix.RWF_APPEND
	}
	var n int
	err := s.grow(in.Fh, int64(in.Offset), int64(size), func(h *handle) (err error) {
		n, err = vectored(data, int64(in.Offset), func(v [][]byte, off int64) (int, error) {
			return unix.Pwritev2(h.file.fd, v, off, flags)
		})
		return err
	})
	return uint32(n), partly(n, err)
}

// grow runs f, which may write size bytes at off to an open file, if the limits
// allow that, and counts what it did.
func (s *session) grow(fh uint64, off, size int64, f func(*handle) error) error {
	h, done, err := s.handle(fh)
	if err != nil {
		return err
	}
	defer done()
	if err := s.dev.floor.take(s.dev.root, size); err != nil {
		return err
	}
	u := s.zone(h.node).usage
	t, err := h.charge(u)
	if err != nil {
		return err
	}
	if err := u.reserve(size); err != nil {
		// Writing over what is there needs no room.
		hole, serr := unix.Seek(h.file.fd, off, unix.SEEK_HOLE)
		if serr != nil || hole < off+size {
			return err
		}
		if err := u.reserve(0); err != nil {
			return err
		}
		size = 0
	}
	defer u.settle(t, h.file, size)
	return f(h)
}

// fsyncDataOnly is FUSE's flag for fdatasync.
const fsyncDataOnly = 1

// Fsync implements fuse.RawFileSystem.
func (s *session) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	h, done, err := s.handle(in.Fh)
	if err != nil {
		return status(err)
	}
	defer done()
	if in.FsyncFlags&fsyncDataOnly != 0 {
		return status(unix.Fdatasync(h.file.fd))
	}
	return status(unix.Fsync(h.file.fd))
}

// FsyncDir implements fuse.RawFileSystem.
func (s *session) FsyncDir(c <-chan struct{}, in *fuse.FsyncIn) fuse.Status { return s.Fsync(c, in) }

// Fallocate implements fuse.RawFileSystem: reserve room, punch a hole, write
// zeros.
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
		if in.Mode&unix.FALLOC_FL_PUNCH_HOLE != 0 {
			return s.punch(h, in)
		}
		return retry(func() error { return unix.Fallocate(h.file.fd, in.Mode, int64(in.Offset), int64(in.Length)) })
	}))
}

// punch frees a part of a file.
func (s *session) punch(h *handle, in *fuse.FallocateIn) error {
	u := s.zone(h.node).usage
	defer u.lockNames()()
	t, err := h.charge(u)
	if err != nil {
		return err
	}
	defer u.settle(t, h.file, 0)
	return retry(func() error { return unix.Fallocate(h.file.fd, in.Mode, int64(in.Offset), int64(in.Length)) })
}

// Lseek implements fuse.RawFileSystem: for SEEK_DATA and SEEK_HOLE, the guest's
// kernel knows the rest.
func (s *session) Lseek(_ <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	h, done, err := s.handle(in.Fh)
	if err != nil {
		return status(err)
	}
	defer done()
	if in.Whence != unix.SEEK_DATA && in.Whence != unix.SEEK_HOLE || h.node.kind != unix.S_IFREG {
		return fuse.EINVAL
	}
	off, err := unix.Seek(h.file.fd, int64(in.Offset), int(in.Whence))
	out.Offset = uint64(off)
	return status(err)
}

// maxCopy bounds one COPY_FILE_RANGE, so that it answers soon.
const maxCopy = 64 << 20

// CopyFileRange implements fuse.RawFileSystem.
func (s *session) CopyFileRange(_ <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	if in.OffIn > math.MaxInt64-maxCopy || in.OffOut > math.MaxInt64-maxCopy || in.Flags != 0 {
		return 0, fuse.EINVAL
	}
	src, done, err := s.handle(in.FhIn)
	if err != nil {
		return 0, status(err)
	}
	defer done()
	size := int64(min(in.Len, maxCopy))
	var n int
	err = s.grow(in.FhOut, int64(in.OffOut), size, func(dst *handle) (err error) {
		from, to := int64(in.OffIn), int64(in.OffOut)
		n, err = unix.CopyFileRange(src.file.fd, &from, dst.file.fd, &to, int(size), 0)
		return err
	})
	return uint32(max(n, 0)), partly(n, err)
}
