package squashfs

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

const (
	// metadataSize is how much a metadata block holds when decompressed.
	metadataSize = 8192
	// stored is set in the size of an uncompressed data block, and storedMetadata in
	// that of a metadata block.
	stored         = 1 << 24
	storedMetadata = 1 << 15
	// fragmentEntry is the size of an entry of the fragment table.
	fragmentEntry = 16
)

// image is an open image.
type image struct {
	r         io.ReaderAt
	blockSize uint32
	fragments uint32

	compression uint16

	inodeTable, dirTable, fragmentIndex int64 // where they begin

	metadata   map[int64]metadataBlock // cache by position
	fragmentAt int64                   // the last fragment block that was read
	fragment   []byte
}

// read reads a block, which unpacks to at most limit bytes.
func (i *image) read(at int64, size int, packed bool, limit int) ([]byte, error) {
	b := make([]byte, size)
	if _, err := i.r.ReadAt(b, at); err != nil || !packed {
		return b, err
	}
	r, err := i.unpacker(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	out, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err == nil && len(out) > limit {
		err = fmt.Errorf("squashfs: a block unpacks to more than %d bytes", limit)
	}
	return out, err
}

// unpacker returns a reader of a packed block. A dictionary or window is no larger than a
// block.
func (i *image) unpacker(r io.Reader) (io.ReadCloser, error) {
	switch i.compression {
	case gzipCompression:
		return zlib.NewReader(r)
	case xzCompression:
		z, err := xz.NewReader(r, maxBlock)
		return io.NopCloser(z), err
	case zstdCompression:
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlock), zstd.WithDecoderMaxWindow(maxBlock))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return nil, fmt.Errorf("squashfs: compression %d is not supported, only gzip, xz and zstd", i.compression)
}

// ref is the position of an inode or a listing: the upper bits are that of a
// metadata block in its table, the lower 16 the offset in the block.
type ref uint64

// metadataBlock is a decompressed block, and the position of the next one.
type metadataBlock struct {
	data []byte
	next int64
}

func (i *image) metadataBlock(at int64) (metadataBlock, error) {
	if block, ok := i.metadata[at]; ok {
		return block, nil
	}
	var header [2]byte
	if _, err := i.r.ReadAt(header[:], at); err != nil {
		return metadataBlock{}, err
	}
	size := int(le.Uint16(header[:]))
	packed := size&storedMetadata == 0
	size &^= storedMetadata
	data, err := i.read(at+2, size, packed, metadataSize)
	if err == nil && len(data) == 0 {
		err = errors.New("squashfs: empty metadata block")
	}
	if err != nil {
		return metadataBlock{}, err
	}
	block := metadataBlock{data, at + 2 + int64(size)}
	i.metadata[at] = block
	return block, nil
}

// metadataReader reads across metadata blocks.
type metadataReader struct {
	image *image
	block metadataBlock
}

// readMetadata returns a reader of a table from a position on.
func (i *image) readMetadata(table int64, at ref) (*metadataReader, error) {
	block, err := i.metadataBlock(table + int64(at>>16))
	if err != nil {
		return nil, err
	}
	offset := int(at & 0xffff)
	if offset > len(block.data) {
		return nil, errors.New("squashfs: reference beyond its block")
	}
	block.data = block.data[offset:]
	return &metadataReader{i, block}, nil
}

// take returns the next n bytes.
func (r *metadataReader) take(n int) ([]byte, error) {
	var b []byte
	for len(b) < n {
		if len(r.block.data) == 0 {
			var err error
			if r.block, err = r.image.metadataBlock(r.block.next); err != nil {
				return nil, err
			}
		}
		part := r.block.data[:min(n-len(b), len(r.block.data))]
		b = append(b, part...)
		r.block.data = r.block.data[len(part):]
	}
	return b, nil
}

// file reads the content of a regular file.
type file struct {
	image *image
	inode inode
	block int    // the next one to read
	at    int64  // its position in the image
	left  int64  // bytes after data
	data  []byte // read, but not yet returned
}

func (f *file) Read(p []byte) (int, error) {
	if len(f.data) == 0 {
		if f.left == 0 {
			return 0, io.EOF
		}
		if err := f.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, f.data)
	f.data = f.data[n:]
	return n, nil
}

// fill reads the next block, or the end of the file from a fragment.
func (f *file) fill() (err error) {
	want := int(min(f.left, int64(f.image.blockSize)))
	if f.block >= len(f.inode.sizes) {
		f.data, err = f.image.readFragment(f.inode, want)
	} else if size := f.inode.sizes[f.block]; size == 0 {
		f.data = make([]byte, want) // a hole
	} else {
		f.data, err = f.image.readBlock(f.at, size, want)
		f.at += int64(size &^ stored)
	}
	if err == nil && len(f.data) != want {
		err = fmt.Errorf("squashfs: block of %d bytes, want %d", len(f.data), want)
	}
	f.block++
	f.left -= int64(want)
	return err
}

func (i *image) readBlock(at int64, size uint32, limit int) ([]byte, error) {
	length := size &^ stored
	if length > i.blockSize {
		return nil, fmt.Errorf("squashfs: block of %d bytes", length)
	}
	return i.read(at, int(length), size&stored == 0, limit)
}

// readFragment returns the end of a file from the block that it shares with the
// ends of other files.
func (i *image) readFragment(n inode, want int) ([]byte, error) {
	if n.fragment >= i.fragments {
		return nil, errors.New("squashfs: missing fragment")
	}
	const perBlock = metadataSize / fragmentEntry
	var pointer [8]byte
	if _, err := i.r.ReadAt(pointer[:], i.fragmentIndex+8*int64(n.fragment/perBlock)); err != nil {
		return nil, err
	}
	r, err := i.readMetadata(int64(le.Uint64(pointer[:])), ref(n.fragment%perBlock*fragmentEntry))
	if err != nil {
		return nil, err
	}
	b, err := r.take(fragmentEntry)
	if err != nil {
		return nil, err
	}
	if at := int64(le.Uint64(b)); i.fragment == nil || i.fragmentAt != at {
		if i.fragment, err = i.readBlock(at, le.Uint32(b[8:]), int(i.blockSize)); err != nil {
			i.fragment = nil
			return nil, err
		}
		i.fragmentAt = at
	}
	if uint64(n.fragmentOffset)+uint64(want) > uint64(len(i.fragment)) {
		return nil, errors.New("squashfs: the end of a file is outside its fragment")
	}
	return i.fragment[n.fragmentOffset:][:want], nil
}
