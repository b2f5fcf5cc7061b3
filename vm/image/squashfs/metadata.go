package squashfs

import (
	"errors"
	"fmt"
	"io"
)

const (
	// metadataSize is how much a metadata block holds when decompressed.
	metadataSize = 8192
	// maxCached bounds the blocks kept decompressed: 8 MiB. Reading a whole
	// image in order needs a few, reading by name the ones of its folders.
	maxCached = 1024
)

// ref is where an inode or a listing begins: in its upper bits the position of
// a metadata block within its table, in its lower 16 the offset in the block.
type ref uint64

// metadataBlock is a decompressed block and where the next one begins.
type metadataBlock struct {
	data []byte
	next int64
}

// metadataReader reads on across metadata blocks.
type metadataReader struct {
	fs   *FS
	next int64
	data []byte
}

// readMetadata begins to read a table at a reference.
func (f *FS) readMetadata(table int64, at ref) (*metadataReader, error) {
	if at>>48 != 0 {
		return nil, errors.New("squashfs: a reference out of range")
	}
	r := &metadataReader{fs: f, next: table + int64(at>>16)}
	if err := r.fill(); err != nil {
		return nil, err
	}
	offset := int(at & 0xffff)
	if offset >= len(r.data) {
		return nil, errors.New("squashfs: a reference behind its block")
	}
	r.data = r.data[offset:]
	return r, nil
}

func (r *metadataReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		if err := r.fill(); err != nil {
			return 0, err
		}
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

func (r *metadataReader) fill() error {
	block, err := r.fs.metadataBlock(r.next)
	if err != nil {
		return err
	}
	r.data, r.next = block.data, block.next
	return nil
}

// metadataBlock returns the block at a position of the image: a header of two
// bytes, its top bit set for one that is stored as it is.
func (f *FS) metadataBlock(at int64) (metadataBlock, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if block, ok := f.metadata[at]; ok {
		return block, nil
	}
	if at < superblockSize || at+2 > f.metadataEnd {
		return metadataBlock{}, fmt.Errorf("squashfs: a metadata block at %d", at)
	}
	var header [2]byte
	if _, err := f.r.ReadAt(header[:], at); err != nil {
		return metadataBlock{}, err
	}
	size := int(le.Uint16(header[:]) &^ 0x8000)
	if size == 0 || size > metadataSize || at+2+int64(size) > f.metadataEnd {
		return metadataBlock{}, fmt.Errorf("squashfs: a metadata block of %d bytes", size)
	}
	data := make([]byte, size)
	if _, err := f.r.ReadAt(data, at+2); err != nil {
		return metadataBlock{}, err
	}
	if le.Uint16(header[:])&0x8000 == 0 {
		var err error
		if data, err = f.decompress(data, metadataSize); err != nil {
			return metadataBlock{}, err
		}
		if len(data) == 0 {
			return metadataBlock{}, errors.New("squashfs: an empty metadata block")
		}
	}
	if len(f.metadata) >= maxCached {
		clear(f.metadata)
	}
	block := metadataBlock{data, at + 2 + int64(size)}
	f.metadata[at] = block
	return block, nil
}
