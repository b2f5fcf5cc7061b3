// Package squashfs reads the files of SquashFS 4.0 images that are compressed with xz and a branch filter, as Alpine's kernel modules are.
package squashfs

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// Limits on an image, which is rejected beyond them.
const (
	// maxDepth bounds the depth of a path. Kernel modules are 10 deep.
	maxDepth = 64
	// maxDirectory bounds the listing of a directory in bytes: room for 100,000 entries.
	maxDirectory = 4 << 20
	// maxFile bounds a file, so that a small image cannot name an endless one.
	maxFile = 1 << 30
	// maxBlock is the largest block of the format.
	maxBlock = 1 << 20
)

const (
	superblockSize = 96

	gzipCompression = 1
	xzCompression   = 4
	zstdCompression = 6
)

var le = binary.LittleEndian

// image is an open image.
type image struct {
	r           io.ReaderAt
	blockSize   uint32
	compression uint16

	inodeTable, dirTable int64 // where they begin
	metadataEnd          int64 // nothing is read beyond it
	fragmentIndex        int64
	fragments            uint32

	metadata   map[int64]metadataBlock // cache by position
	fragmentAt int64                   // the last fragment block that was read
	fragment   []byte
	visited    map[ref]bool // directories
}

// Visit is called with a regular file: its path, its size and its content.
type Visit func(name string, size int64, content io.Reader) error

// Walk calls visit for each regular file of an image in the order of their
// names, and stops at the first error. It skips everything else.
func Walk(r *io.SectionReader, visit Visit) error {
	var b [superblockSize]byte
	if _, err := r.ReadAt(b[:], 0); err != nil {
		return fmt.Errorf("squashfs: superblock: %w", err)
	}
	if string(b[:4]) != "hsqs" || le.Uint16(b[28:]) != 4 || le.Uint16(b[30:]) != 0 {
		return errors.New("squashfs: not a SquashFS 4.0 image")
	}
	i := &image{
		r: r, blockSize: le.Uint32(b[12:]), compression: le.Uint16(b[20:]), fragments: le.Uint32(b[16:]),
		inodeTable: int64(le.Uint64(b[64:])), dirTable: int64(le.Uint64(b[72:])), fragmentIndex: int64(le.Uint64(b[80:])),
		metadataEnd: int64(le.Uint64(b[40:])),
		metadata:    map[int64]metadataBlock{}, visited: map[ref]bool{},
	}
	if i.blockSize < 4096 || i.blockSize > maxBlock || bits.OnesCount32(i.blockSize) != 1 {
		return fmt.Errorf("squashfs: block size %d", i.blockSize)
	}
	if i.metadataEnd > r.Size() || i.inodeTable < superblockSize || i.inodeTable > i.dirTable || i.dirTable > i.metadataEnd {
		return errors.New("squashfs: the image is truncated or its tables are outside of it")
	}
	return i.walk("", ref(le.Uint64(b[32:])), 0, visit)
}

// walk visits the files below a directory. A directory is entered once, so the
// walk ends even if a hostile image has loops.
func (i *image) walk(name string, at ref, depth int, visit Visit) error {
	if depth > maxDepth {
		return fmt.Errorf("squashfs: more than %d directories deep", maxDepth)
	}
	if i.visited[at] {
		return fmt.Errorf("squashfs: directory %q is linked twice", name)
	}
	i.visited[at] = true
	dir, err := i.readInode(at)
	if err != nil || dir.size == 0 {
		return err
	}
	if dir.kind != kindDir {
		return fmt.Errorf("squashfs: %q is not a directory", name)
	}
	entries, err := i.list(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		full := path.Join(name, e.name)
		switch e.kind {
		case kindDir:
			err = i.walk(full, e.ref, depth+1, visit)
		case kindFile:
			err = i.visitFile(full, e.ref, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (i *image) visitFile(name string, at ref, visit Visit) error {
	n, err := i.readInode(at)
	if err != nil {
		return err
	}
	if n.kind != kindFile {
		return fmt.Errorf("squashfs: %q is not the file it is listed as", name)
	}
	return visit(name, n.size, &file{image: i, inode: n, at: n.blocksStart, left: n.size})
}

// entry is an entry of a directory.
type entry struct {
	name string
	kind kind
	ref  ref
}

// list returns the entries of a directory, sorted by name.
func (i *image) list(dir inode) ([]entry, error) {
	m, err := i.readMetadata(i.dirTable, dir.listing)
	if err != nil {
		return nil, err
	}
	b, err := m.take(int(dir.size))
	if err != nil {
		return nil, err
	}
	listing := bytes.NewBuffer(b)
	var entries []entry
	for listing.Len() > 0 {
		// A header, and the entries whose inodes are in one metadata block.
		header := listing.Next(12)
		if len(header) < 12 || le.Uint32(header) >= 256 {
			return nil, errors.New("squashfs: bad directory header")
		}
		start := uint64(le.Uint32(header[4:]))
		for range le.Uint32(header) + 1 {
			b := listing.Next(8)
			if len(b) < 8 {
				return nil, errors.New("squashfs: truncated directory")
			}
			name := string(listing.Next(int(le.Uint16(b[6:])) + 1))
			if len(name) > 255 || name == "." || name == ".." || name == "" || strings.ContainsAny(name, "/\x00") {
				return nil, fmt.Errorf("squashfs: bad name %.300q", name)
			}
			entries = append(entries, entry{name, kind(le.Uint16(b[4:])), ref(start<<16 | uint64(le.Uint16(b)))})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for n := 1; n < len(entries); n++ {
		if entries[n-1].name == entries[n].name {
			return nil, fmt.Errorf("squashfs: %q is listed twice", entries[n].name)
		}
	}
	return entries, nil
}

// decompress unpacks a block of at most limit bytes.
func (i *image) decompress(b []byte, limit int) ([]byte, error) {
	var r io.Reader
	err := fmt.Errorf("squashfs: compression %d is not supported, only gzip, xz and zstd", i.compression)
	switch i.compression {
	case gzipCompression:
		r, err = zlib.NewReader(bytes.NewReader(b))
	case xzCompression:
		r, err = xz.NewReader(bytes.NewReader(b), maxBlock) // the dictionary is no larger than a block
	case zstdCompression:
		var z *zstd.Decoder
		if z, err = zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(8*maxBlock)); err == nil {
			defer z.Close()
			r = z
		}
	}
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err == nil && len(out) > limit {
		err = fmt.Errorf("squashfs: a block unpacks to more than %d bytes", limit)
	}
	return out, err
}
