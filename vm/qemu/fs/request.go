//go:build linux

package fs

import (
	"encoding/binary"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// opcode is the kind of a FUSE request; go-fuse does not export its own list.
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
	opSetXAttr      opcode = 21
	opGetXAttr      opcode = 22
	opListXAttr     opcode = 23
	opRemoveXAttr   opcode = 24
	opInit          opcode = 26
	opOpenDir       opcode = 27
	opReadDir       opcode = 28
	opReleaseDir    opcode = 29
	opFsyncDir      opcode = 30
	opInterrupt     opcode = 36
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
	// maxData is the largest READ and WRITE. It is Linux's largest, and fits
	// into a ring of 1024 descriptors, one for each page.
	maxData = 1 << 20
	// maxMessage bounds each direction of a request. Without it a guest could
	// name the same page over and over and have gigabytes allocated for it.
	maxMessage = maxData + 64<<10
	// maxCopied bounds a request that carries no file data. The largest is a
	// SETXATTR of Linux's 64 KiB.
	maxCopied = 128 << 10

	inHeaderSize  = int(unsafe.Sizeof(fuse.InHeader{}))
	outHeaderSize = int(unsafe.Sizeof(fuse.OutHeader{}))

	// FUSE's version. virtio-fs came with 7.31; a guest that says less is no
	// Linux that we know.
	fuseMajor, fuseMinMinor = 7, 31
)

// operation says what a request must be like.
type operation struct {
	size   int  // of the fixed part
	writes bool // refused on a read-only share
	slow   bool // may wait for the host's disk, or have it give much room back
	silent bool // has no reply
}

// operationOf returns what is known of an opcode; the rest is not served.
func operationOf(op opcode) (operation, bool) {
	switch op {
	case opLookup, opReadlink, opStatFS, opRemoveXAttr, opSymlink, opUnlink, opRmdir, opDestroy:
		writes := op == opRemoveXAttr || op == opSymlink || op == opUnlink || op == opRmdir
		return operation{size: inHeaderSize, writes: writes, slow: op == opUnlink}, true
	case opForget:
		return operation{size: int(unsafe.Sizeof(fuse.ForgetIn{})), silent: true}, true
	case opBatchForget:
		return operation{size: inHeaderSize + 8, silent: true}, true
	case opInterrupt:
		return operation{size: int(unsafe.Sizeof(fuse.InterruptIn{}))}, true
	case opGetAttr:
		return operation{size: int(unsafe.Sizeof(fuse.GetAttrIn{}))}, true
	case opSetAttr:
		return operation{size: int(unsafe.Sizeof(fuse.SetAttrIn{})), writes: true}, true
	case opMknod:
		return operation{size: int(unsafe.Sizeof(fuse.MknodIn{})), writes: true}, true
	case opMkdir:
		return operation{size: int(unsafe.Sizeof(fuse.MkdirIn{})), writes: true}, true
	case opRename:
		return operation{size: inHeaderSize + 8, writes: true}, true
	case opRename2:
		return operation{size: int(unsafe.Sizeof(fuse.RenameIn{})), writes: true}, true
	case opLink:
		return operation{size: int(unsafe.Sizeof(fuse.LinkIn{})), writes: true}, true
	case opOpen, opOpenDir:
		return operation{size: int(unsafe.Sizeof(fuse.OpenIn{}))}, true
	case opCreate:
		return operation{size: int(unsafe.Sizeof(fuse.CreateIn{})), writes: true}, true
	case opRead, opReadDir, opReadDirPlus:
		return operation{size: int(unsafe.Sizeof(fuse.ReadIn{})), slow: op == opRead}, true
	case opWrite:
		return operation{size: int(unsafe.Sizeof(fuse.WriteIn{})), writes: true, slow: true}, true
	case opRelease, opReleaseDir:
		return operation{size: int(unsafe.Sizeof(fuse.ReleaseIn{}))}, true
	case opFsync, opFsyncDir:
		return operation{size: int(unsafe.Sizeof(fuse.FsyncIn{})), slow: true}, true
	case opSetXAttr:
		return operation{size: inHeaderSize + 8, writes: true}, true
	case opGetXAttr, opListXAttr:
		return operation{size: int(unsafe.Sizeof(fuse.GetXAttrIn{}))}, true
	case opInit:
		return operation{size: inHeaderSize + 16}, true
	case opFallocate:
		return operation{size: int(unsafe.Sizeof(fuse.FallocateIn{})), writes: true, slow: true}, true
	case opLseek:
		return operation{size: int(unsafe.Sizeof(fuse.LseekIn{}))}, true
	case opCopyFileRange:
		return operation{size: int(unsafe.Sizeof(fuse.CopyFileRangeIn{})), writes: true, slow: true}, true
	}
	return operation{}, false
}

// slow is what operationOf says, or what of a request's arguments makes it so: a file that is made shorter
// gives room back. They are the guest's, which may change them: it is the one who waits. CREATE is not
// slow, though it may find a file there and cut it: creat(2) of each new file asks for that, too, and would
// pay for it.
func slow(op opcode, request [][]byte) bool {
	switch op {
	case opSetAttr:
		in := argument[fuse.SetAttrIn](request)
		return in.Valid&fuse.FATTR_SIZE != 0
	case opOpen:
		return argument[fuse.OpenIn](request).Flags&unix.O_TRUNC != 0
	}
	o, _ := operationOf(op)
	return o.slow
}

// argument is the fixed part of a request, or what there is of it.
func argument[In any](request [][]byte) (in In) {
	gather(unsafe.Slice((*byte)(unsafe.Pointer(&in)), unsafe.Sizeof(in)), request)
	return in
}

// header is the part of a request's header that is needed before go-fuse
// parses it. It is read from guest memory once.
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

// check decides whether a request may go to go-fuse, which writes to the
// standard logger about what is too short for it.
func check(op opcode, request [][]byte, length int, readOnly bool) unix.Errno {
	o, ok := operationOf(op)
	switch {
	case !ok:
		return unix.ENOSYS
	case length < o.size, op != opWrite && length > maxCopied:
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
	if o, _ := operationOf(h.op); o.silent || space < outHeaderSize {
		return 0
	}
	var b [outHeaderSize]byte
	binary.LittleEndian.PutUint32(b[:], uint32(outHeaderSize))
	binary.LittleEndian.PutUint32(b[4:], uint32(-int32(errno)))
	binary.LittleEndian.PutUint64(b[8:], h.unique)
	scatter(reply, b[:])
	return outHeaderSize
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
