package fs

import (
	"math"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// HandleCached serves a READ if all its data is in the host's page cache, and reports whether it
// did. That saves waking a goroutine, which costs more than the read.
func (d *Server) HandleCached(r Request) (n int, ok bool) {
	h := readHeader(r.Out)
	if h.op != opRead || r.OutLen != int(unsafe.Sizeof(fuse.ReadIn{})) || r.InLen <= outHeaderSize || r.InLen > outHeaderSize+maxCachedRead {
		return 0, false
	}
	in := argument[fuse.ReadIn](r.Out)
	size := int64(in.Size)
	if size > int64(r.InLen-outHeaderSize) || in.Offset > math.MaxInt64-uint64(size) {
		return 0, false
	}
	s := d.session()
	if s == nil {
		return 0, false
	}
	defer s.requests.Done()
	file, err := s.readable(&in)
	if err != nil {
		return 0, false
	}
	defer file.release()
	if n, ok = readNow(file.fd, first(after(r.In, outHeaderSize), int(size)), int64(in.Offset)); !ok {
		return 0, false
	}
	return answer(h, 0, r.In, outHeaderSize+n), true
}

// readNow fills dst from a file, up to the file's end. It returns false if that needs the disk.
func readNow(fd int, dst [][]byte, off int64) (total int, ok bool) {
	for len(dst) > 0 {
		n, err := unix.Preadv2(fd, dst[:min(len(dst), maxVectors)], off, unix.RWF_NOWAIT)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, false // not cached, or an error, which the usual READ returns
		case n == 0:
			return total, true
		}
		total, off = total+n, off+int64(n)
		dst = after(dst, n)
	}
	return total, true
}
