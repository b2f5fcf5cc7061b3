package squashfs

import (
	"errors"
	"fmt"
	"io"
)

const (
	// metadataSize is how much a metadata block holds when decompressed.
	metadataSize = 8192
	// maxCached bounds the decompressed blocks in memory: 8 MiB.
	maxCached = 1024
)

// ref is the position of an inode or a listing: the upper bits are that of a
// metadata block in its table, the lower 16 the offset in the block.
type ref uint64

// metadataBlock is a decompressed block, and the position of the next one.
type metadataBlock struct {
	data []byte
	next int64
}

// metadataReader reads across metadata blocks.
type metadataReader struct {
	image *image
	next  int64
	data  []byte
}

// readMetadata returns a reader of a table from a position on.
func (i *image) readMetadata(table int64, at ref) (*metadataReader, error) {
	if at>>48 != 0 {
		return nil, errors.New("squashfs: reference out of range")
	}
	block, err := i.metadataBlock(table + int64(at>>16))
	if err != nil {
		return nil, err
	}
	offset := int(at & 0xffff)
	if offset >= len(block.data) {
		return nil, errors.New("squashfs: reference beyond its block")
	}
	return &metadataReader{image: i, next: block.next, data: block.data[offset:]}, nil
}

func (r *metadataReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		block, err := r.image.metadataBlock(r.next)
		if err != nil {
			return 0, err
		}
		r.data, r.next = block.data, block.next
	}
	n := copy(p, r.data)
	r.data = r.data[n:]
	return n, nil
}

// take returns the next n bytes.
func (r *metadataReader) take(n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}

// metadataBlock returns the block at a position of the image. Its header has two
// bytes, with the top bit set if it is not compressed.
func (i *image) metadataBlock(at int64) (metadataBlock, error) {
	if block, ok := i.metadata[at]; ok {
		return block, nil
	}
	if at < superblockSize || at+2 > i.metadataEnd {
		return metadataBlock{}, fmt.Errorf("squashfs: metadata block at %d", at)
	}
	var header [2]byte
	if _, err := i.r.ReadAt(header[:], at); err != nil {
		return metadataBlock{}, err
	}
	size := int(le.Uint16(header[:]) &^ 0x8000)
	if size == 0 || size > metadataSize || at+2+int64(size) > i.metadataEnd {
		return metadataBlock{}, fmt.Errorf("squashfs: metadata block of %d bytes", size)
	}
	data := make([]byte, size)
	_, err := i.r.ReadAt(data, at+2)
	if err == nil && le.Uint16(header[:])&0x8000 == 0 {
		data, err = i.decompress(data, metadataSize)
	}
	if err == nil && len(data) == 0 {
		err = errors.New("squashfs: empty metadata block")
	}
	if err != nil {
		return metadataBlock{}, err
	}
	if len(i.metadata) >= maxCached {
		clear(i.metadata)
	}
	block := metadataBlock{data, at + 2 + int64(size)}
	i.metadata[at] = block
	return block, nil
}
