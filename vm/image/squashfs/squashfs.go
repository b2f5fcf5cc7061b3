// Package squashfs reads the files of SquashFS 4.0 images that are compressed with xz and its branch filters, as Alpine's kernel modules are, or with gzip or zstd.
package squashfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"path"
)

const (
	// maxDirectory bounds the listing of a directory in bytes: room for 100,000 entries.
	maxDirectory = 4 << 20
	// maxFile bounds a file, so that a small image cannot name an endless one.
	maxFile = 1 << 30
	// maxBlock is the largest block of the format.
	maxBlock = 1 << 20

	superblockSize = 96

	gzipCompression = 1
	xzCompression   = 4
	zstdCompression = 6
)

var le = binary.LittleEndian

// Visit is called with a regular file: its path, its size and its content.
type Visit func(name string, size int64, content io.Reader) error

// Walk calls visit for each regular file of an image, and stops at the first error. It
// skips everything else.
func Walk(r *io.SectionReader, visit Visit) error {
	var b [superblockSize]byte
	if _, err := r.ReadAt(b[:], 0); err != nil {
		return fmt.Errorf("squashfs: superblock: %w", err)
	}
	if string(b[:4]) != "hsqs" || le.Uint16(b[28:]) != 4 || le.Uint16(b[30:]) != 0 {
		return errors.New("squashfs: not a SquashFS 4.0 image")
	}
	i := &image{
		r: r, compression: le.Uint16(b[20:]), blockSize: le.Uint32(b[12:]), fragments: le.Uint32(b[16:]), inodeTable: int64(le.Uint64(b[64:])),
		dirTable: int64(le.Uint64(b[72:])), fragmentIndex: int64(le.Uint64(b[80:])), metadata: map[int64]metadataBlock{},
	}
	if i.blockSize < 4096 || i.blockSize > maxBlock || bits.OnesCount32(i.blockSize) != 1 {
		return fmt.Errorf("squashfs: block size %d", i.blockSize)
	}
	return i.walk("", ref(le.Uint64(b[32:])), map[ref]bool{}, visit)
}

// walk visits the files below an inode. An inode of a directory is entered once, so the
// walk ends even if an image has loops.
func (i *image) walk(name string, at ref, entered map[ref]bool, visit Visit) error {
	n, err := i.readInode(at)
	switch {
	case err != nil:
		return err
	case n.kind == kindFile:
		return visit(name, n.size, &file{image: i, inode: n, at: n.start, left: n.size})
	case n.kind != kindDir || n.size == 0:
		return nil
	case entered[at]:
		return fmt.Errorf("squashfs: directory %q is linked twice", name)
	}
	entered[at] = true
	return i.list(n, func(entry string, at ref) error { return i.walk(path.Join(name, entry), at, entered, visit) })
}

// The kinds of inodes that are read.
const (
	kindDir      = 1
	kindFile     = 2
	extendedDir  = 8
	extendedFile = 9
)

// inode describes a directory or a regular file.
type inode struct {
	kind    uint16 // kindDir, kindFile or another one
	size    int64  // of a file's content or a directory's listing
	listing ref    // of a directory

	start          int64    // of a file's blocks
	sizes          []uint32 // of its blocks
	fragment       uint32
	fragmentOffset uint32
}

func (i *image) readInode(at ref) (n inode, err error) {
	r, err := i.readMetadata(i.inodeTable, at)
	if err != nil {
		return inode{}, err
	}
	head, err := r.take(16)
	if err != nil {
		return inode{}, err
	}
	n.kind = le.Uint16(head)
	size := map[uint16]int{kindDir: 16, extendedDir: 24, kindFile: 16, extendedFile: 40}[n.kind]
	b, err := r.take(size)
	if err != nil || size == 0 {
		return n, err
	}
	switch n.kind {
	case kindDir:
		n.size, n.listing = int64(le.Uint16(b[8:])), ref(le.Uint32(b))<<16|ref(le.Uint16(b[10:]))
	case extendedDir:
		n.kind, n.size, n.listing = kindDir, int64(le.Uint32(b[4:])), ref(le.Uint32(b[8:]))<<16|ref(le.Uint16(b[18:]))
	case kindFile:
		n.start, n.size = int64(le.Uint32(b)), int64(le.Uint32(b[12:]))
		n.fragment, n.fragmentOffset = le.Uint32(b[4:]), le.Uint32(b[8:])
	case extendedFile:
		n.kind, n.start, n.size = kindFile, int64(le.Uint64(b)), int64(le.Uint64(b[8:]))
		n.fragment, n.fragmentOffset = le.Uint32(b[28:]), le.Uint32(b[32:])
	}
	if n.kind == kindDir {
		// The size counts "." and "..", which are not listed, as three bytes.
		if n.size -= 3; n.size < 0 || n.size > maxDirectory {
			return inode{}, fmt.Errorf("squashfs: directory of %d bytes", n.size)
		}
		return n, nil
	}
	if n.size < 0 || n.size > maxFile {
		return inode{}, fmt.Errorf("squashfs: file of %d bytes", n.size)
	}
	return n, n.readSizes(r, int64(i.blockSize))
}

// readSizes reads the sizes of a file's blocks, which follow its inode.
func (n *inode) readSizes(r *metadataReader, blockSize int64) error {
	const noFragment = 1<<32 - 1
	blocks := int(n.size / blockSize)
	if n.fragment == noFragment && n.size%blockSize != 0 {
		blocks++
	}
	b, err := r.take(4 * blocks)
	for ; len(b) > 0; b = b[4:] {
		n.sizes = append(n.sizes, le.Uint32(b))
	}
	return err
}

// list calls visit for the entries of a directory, and stops at the first error.
func (i *image) list(dir inode, visit func(name string, at ref) error) error {
	m, err := i.readMetadata(i.dirTable, dir.listing)
	if err != nil {
		return err
	}
	b, err := m.take(int(dir.size))
	if err != nil {
		return err
	}
	truncated := errors.New("squashfs: truncated directory")
	for listing := bytes.NewBuffer(b); listing.Len() > 0; {
		// A header, and the entries whose inodes are in one metadata block.
		header := listing.Next(12)
		if len(header) < 12 {
			return truncated
		}
		start := ref(le.Uint32(header[4:]))
		for range uint64(le.Uint32(header)) + 1 {
			b := listing.Next(8)
			if len(b) < 8 {
				return truncated
			}
			name := listing.Next(int(le.Uint16(b[6:])) + 1)
			if err := visit(string(name), start<<16|ref(le.Uint16(b))); err != nil {
				return err
			}
		}
	}
	return nil
}
