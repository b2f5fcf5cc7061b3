package fs

import (
	"encoding/binary"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// opcode is the kind of a FUSE request. go-fuse does not export its list.
type opcode uint32

const (
	opLookup        opcode = 1
	opForget        opcode = 2
	opGetAttr       opcode = 3
	opSetAttr       opcode = 4
	opReadlink      opcode = 5
	opSymlink       opcode = 6
	opMknod         opcode = 8
	opMkdir         opcode = 9
	opUnlink        opcode = 10
	opRmdir         opcode = 11
	opRename        opcode = 12
	opLink          opcode = 13
	opOpen          opcode = 14
	opRead          opcode = 15
	opWrite         opcode = 16
	opStatFS        opcode = 17
	opRelease       opcode = 18
	opFsync         opcode = 20
	opInit          opcode = 26
	opOpenDir       opcode = 27
	opReadDir       opcode = 28
	opReleaseDir    opcode = 29
	opFsyncDir      opcode = 30
	opDestroy       opcode = 38
	opCreate        opcode = 35
	opBatchForget   opcode = 42
	opFallocate     opcode = 43
	opReadDirPlus   opcode = 44
	opRename2       opcode = 45
	opLseek         opcode = 46
	opCopyFileRange opcode = 47
)

const (
	// maxData is the largest READ and WRITE, as in Linux. It fits into a ring of 1024
	// descriptors, one for each page.
	maxData = 1 << 20
	// maxMessage bounds each direction of a request, since a guest can name the same page many
	// times to have gigabytes allocated.
	maxMessage = maxData + 64<<10
	// maxCopied bounds a request without file data or a list of nodes. The longest has two paths.
	maxCopied = 16 << 10

	inHeaderSize  = int(headerSize)
	outHeaderSize = int(unsafe.Sizeof(fuse.OutHeader{}))

	// The FUSE version: no Linux has virtio-fs with a version before 7.31.
	fuseMajor, fuseMinMinor = 7, 31
)

// maxCachedRead is the largest READ that is served on the queue's goroutine: the size of Linux's
// read-ahead. Copying more would delay other requests.
const maxCachedRead = 128 << 10

// operation describes the requests of an opcode.
type operation struct {
	size   uintptr // of the fixed part; zero for an opcode that is not served
	writes bool    // refused on a read-only share
	slow   bool    // may wait for the host's disk, or free much space
	silent bool    // has no reply
}

// headerSize is the size of a request without arguments.
const headerSize = unsafe.Sizeof(fuse.InHeader{})

var operations = [...]operation{
	opLookup:        {size: headerSize},
	opForget:        {size: unsafe.Sizeof(fuse.ForgetIn{}), silent: true},
	opGetAttr:       {size: unsafe.Sizeof(fuse.GetAttrIn{})},
	opSetAttr:       {size: unsafe.Sizeof(fuse.SetAttrInCommon{}), writes: true}, // macFUSE's has more
	opReadlink:      {size: headerSize},
	opSymlink:       {size: headerSize, writes: true},
	opMknod:         {size: unsafe.Sizeof(fuse.MknodIn{}), writes: true},
	opMkdir:         {size: unsafe.Sizeof(fuse.MkdirIn{}), writes: true},
	opUnlink:        {size: headerSize, writes: true, slow: true},
	opRmdir:         {size: headerSize, writes: true},
	opRename:        {size: headerSize + 8, writes: true},
	opLink:          {size: unsafe.Sizeof(fuse.LinkIn{}), writes: true},
	opOpen:          {size: unsafe.Sizeof(fuse.OpenIn{})},
	opRead:          {size: unsafe.Sizeof(fuse.ReadIn{}), slow: true},
	opWrite:         {size: unsafe.Sizeof(fuse.WriteIn{}), writes: true, slow: true},
	opStatFS:        {size: headerSize},
	opRelease:       {size: unsafe.Sizeof(fuse.ReleaseIn{})},
	opFsync:         {size: unsafe.Sizeof(fuse.FsyncIn{}), slow: true},
	opInit:          {size: headerSize + 16},
	opOpenDir:       {size: unsafe.Sizeof(fuse.OpenIn{})},
	opReadDir:       {size: unsafe.Sizeof(fuse.ReadIn{})},
	opReleaseDir:    {size: unsafe.Sizeof(fuse.ReleaseIn{})},
	opFsyncDir:      {size: unsafe.Sizeof(fuse.FsyncIn{}), slow: true},
	opCreate:        {size: unsafe.Sizeof(fuse.CreateIn{}), writes: true},
	opDestroy:       {size: headerSize},
	opBatchForget:   {size: headerSize + 8, silent: true},
	opFallocate:     {size: unsafe.Sizeof(fuse.FallocateIn{}), writes: true, slow: true},
	opReadDirPlus:   {size: unsafe.Sizeof(fuse.ReadIn{})},
	opRename2:       {size: unsafe.Sizeof(fuse.RenameIn{}), writes: true},
	opLseek:         {size: unsafe.Sizeof(fuse.LseekIn{})},
	opCopyFileRange: {size: unsafe.Sizeof(fuse.CopyFileRangeIn{}), writes: true, slow: true},
}

// operation returns the zero operation for an opcode that is not served.
func (op opcode) operation() operation {
	if int64(op) >= int64(len(operations)) {
		return operation{}
	}
	return operations[op]
}

// slow reports whether a request may wait for the host's disk or free much space, as shortening a
// file does. It reads arguments that the guest may still change, which only delays the guest. CREATE
// is not slow, although it may truncate a file: creat(2) asks for that with each new file.
func slow(op opcode, request [][]byte) bool {
	switch op {
	case opSetAttr:
		return argument[fuse.SetAttrIn](request).Valid&fuse.FATTR_SIZE != 0
	case opOpen:
		return argument[fuse.OpenIn](request).Flags&linuxTruncate != 0
	}
	return op.operation().slow
}

// argument returns the fixed part of a request, as far as it is there.
func argument[In any](request [][]byte) (in In) {
	gather(unsafe.Slice((*byte)(unsafe.Pointer(&in)), unsafe.Sizeof(in)), request)
	return in
}

// header is the part of a request's header that is needed before the request is copied. It is
// read from guest memory once.
type header struct {
	op     opcode
	unique uint64
}

// readHeader reads the header of a request.
func readHeader(request [][]byte) header {
	var b [inHeaderSize]byte
	gather(b[:], request)
	return header{opcode(binary.LittleEndian.Uint32(b[4:])), binary.LittleEndian.Uint64(b[8:])}
}

// check returns an error for a request that must not be handled.
func check(op opcode, request [][]byte, length int, readOnly bool) unix.Errno {
	o := op.operation()
	switch {
	case o.size == 0:
		return unix.ENOSYS
	case length < int(o.size), op != opWrite && op != opBatchForget && length > maxCopied:
		return unix.EIO
	case o.writes && readOnly:
		return unix.EROFS
	case op == opInit:
		var b [inHeaderSize + 8]byte
		gather(b[:], request)
		major, minor := binary.LittleEndian.Uint32(b[inHeaderSize:]), binary.LittleEndian.Uint32(b[inHeaderSize+4:])
		if major != fuseMajor || minor < fuseMinMinor {
			return unix.EPROTO
		}
	}
	return 0
}

// refuse answers a request with an error and returns the reply's length.
func refuse(h header, errno unix.Errno, reply [][]byte, space int) int {
	if h.op.operation().silent || space < outHeaderSize {
		return 0
	}
	return answer(h, linuxErrno(errno), reply, outHeaderSize)
}

// answer writes the header of a reply, and returns the reply's length.
func answer(h header, errno unix.Errno, reply [][]byte, length int) int {
	var b [outHeaderSize]byte
	binary.LittleEndian.PutUint32(b[:], uint32(length))
	binary.LittleEndian.PutUint32(b[4:], uint32(-int32(errno)))
	binary.LittleEndian.PutUint64(b[8:], h.unique)
	scatter(reply, b[:])
	return length
}

// gather fills dst with the first bytes of src.
func gather(dst []byte, src [][]byte) {
	for _, b := range src {
		dst = dst[copy(dst, b):]
	}
}

// scatter writes src to the beginning of dst.
func scatter(dst [][]byte, src []byte) {
	for _, b := range dst {
		src = src[copy(b, src):]
	}
}

// after returns v without its first n bytes.
func after(v [][]byte, n int) [][]byte {
	for len(v) > 0 && n >= len(v[0]) {
		n -= len(v[0])
		v = v[1:]
	}
	if n == 0 {
		return v
	}
	return append([][]byte{v[0][n:]}, v[1:]...)
}

// first returns the first n bytes of v.
func first(v [][]byte, n int) (part [][]byte) {
	for _, b := range v {
		if b = b[:min(len(b), n)]; len(b) == 0 {
			break
		}
		part, n = append(part, b), n-len(b)
	}
	return part
}
