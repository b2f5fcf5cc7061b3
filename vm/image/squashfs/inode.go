package squashfs

import (
	"fmt"
	"io/fs"
	"time"
)

// kind is the kind of an inode in its basic form, as folders list it.
type kind uint16

const (
	kindFolder kind = 1 + iota
	kindFile
	kindLink
	kindBlockDevice
	kindCharDevice
	kindPipe
	kindSocket
	// extended is what the number of the extended form of a kind has on top.
	extended = kindSocket
)

// none is how the format says that there is no fragment.
const none = 1<<32 - 1

// inode is what an inode says, the basic and the extended form alike.
type inode struct {
	ref      ref
	kind     kind
	mode     fs.FileMode
	modified time.Time
	size     int64 // of a file's content, or a folder's listing

	listing ref // a folder's

	blocksStart    int64 // a file's
	fragment       uint32
	fragmentOffset uint32
	sizes          []uint32 // of its blocks, with bit 24 set for one stored as it is

	target string // a link's
}

func (f *FS) readInode(at ref) (inode, error) {
	r, err := f.readMetadata(f.inodeTable, at)
	if err != nil {
		return inode{}, err
	}
	head, err := r.take(16)
	if err != nil {
		return inode{}, err
	}
	i := inode{ref: at, kind: kind(le.Uint16(head)), modified: time.Unix(int64(le.Uint32(head[8:])), 0)}
	long := i.kind > extended
	if long {
		i.kind -= extended
	}
	switch i.kind {
	case kindFolder:
		err = i.readFolder(r, long)
	case kindFile:
		err = i.readFile(r, long, f.blockSize)
	case kindLink:
		err = i.readLink(r)
	case kindBlockDevice, kindCharDevice, kindPipe, kindSocket:
	default:
		err = fmt.Errorf("squashfs: an inode of kind %d", i.kind)
	}
	i.mode = i.kind.mode() | permissions(le.Uint16(head[2:]))
	return i, err
}

func (i *inode) readFolder(r *metadataReader, long bool) error {
	var start, offset uint64
	if long {
		b, err := r.take(24)
		if err != nil {
			return err
		}
		i.size, start, offset = int64(le.Uint32(b[4:])), uint64(le.Uint32(b[8:])), uint64(le.Uint16(b[18:]))
	} else {
		b, err := r.take(16)
		if err != nil {
			return err
		}
		i.size, start, offset = int64(le.Uint16(b[8:])), uint64(le.Uint32(b)), uint64(le.Uint16(b[10:]))
	}
	// The size counts "." and ".." as one byte and two, which are not listed.
	if i.size -= 3; i.size < 0 || i.size > maxDirectory {
		return fmt.Errorf("squashfs: a folder of %d bytes", i.size)
	}
	i.listing = ref(start<<16 | offset)
	return nil
}

func (i *inode) readFile(r *metadataReader, long bool, blockSize uint32) error {
	var size uint64
	if long {
		b, err := r.take(40)
		if err != nil {
			return err
		}
		i.blocksStart, size = int64(le.Uint64(b)), le.Uint64(b[8:])
		i.fragment, i.fragmentOffset = le.Uint32(b[28:]), le.Uint32(b[32:])
	} else {
		b, err := r.take(16)
		if err != nil {
			return err
		}
		i.blocksStart, size = int64(le.Uint32(b)), uint64(le.Uint32(b[12:]))
		i.fragment, i.fragmentOffset = le.Uint32(b[4:]), le.Uint32(b[8:])
	}
	if size > maxFile {
		return fmt.Errorf("squashfs: a file of %d bytes", size)
	}
	i.size = int64(size)
	blocks := int(i.size / int64(blockSize))
	if i.fragment == none && i.size%int64(blockSize) != 0 {
		blocks++
	}
	b, err := r.take(4 * blocks)
	if err != nil {
		return err
	}
	i.sizes = make([]uint32, blocks)
	for n := range i.sizes {
		i.sizes[n] = le.Uint32(b[4*n:])
	}
	return nil
}

func (i *inode) readLink(r *metadataReader) error {
	b, err := r.take(8)
	if err != nil {
		return err
	}
	size := le.Uint32(b[4:])
	if size == 0 || size > maxLink {
		return fmt.Errorf("squashfs: a link's target of %d bytes", size)
	}
	target, err := r.take(int(size))
	i.size, i.target = int64(size), string(target)
	return err
}

func (k kind) mode() fs.FileMode {
	switch k {
	case kindFolder:
		return fs.ModeDir
	case kindLink:
		return fs.ModeSymlink
	case kindBlockDevice:
		return fs.ModeDevice
	case kindCharDevice:
		return fs.ModeDevice | fs.ModeCharDevice
	case kindPipe:
		return fs.ModeNamedPipe
	case kindSocket:
		return fs.ModeSocket
	}
	return 0
}

// permissions turns Unix bits into Go's.
func permissions(bits uint16) fs.FileMode {
	mode := fs.FileMode(bits & 0o777)
	for bit, m := range map[uint16]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if bits&bit != 0 {
			mode |= m
		}
	}
	return mode
}

// info is an fs.FileInfo.
type info struct {
	name  string
	inode inode
}

func (i info) Name() string       { return i.name }
func (i info) Mode() fs.FileMode  { return i.inode.mode }
func (i info) ModTime() time.Time { return i.inode.modified }
func (i info) IsDir() bool        { return i.inode.kind == kindFolder }
func (i info) Sys() any           { return nil }
func (i info) Size() int64        { return i.inode.size }
