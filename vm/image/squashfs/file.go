package squashfs

import (
	"errors"
	"fmt"
	"io"
)

const (
	// stored is set in the size of an uncompressed block.
	stored = 1 << 24
	// fragmentEntry is the size of an entry of the fragment table.
	fragmentEntry = 16
)

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
	} else {
		size := f.inode.sizes[f.block]
		f.block++
		if size == 0 {
			f.data = make([]byte, want) // a hole
		} else {
			f.data, err = f.image.readBlock(f.at, size, want)
			f.at += int64(size &^ stored)
		}
	}
	if err == nil && len(f.data) != want {
		err = fmt.Errorf("squashfs: block of %d bytes, want %d", len(f.data), want)
	}
	f.left -= int64(want)
	return err
}

// readBlock reads a data block of at most limit bytes.
func (i *image) readBlock(at int64, size uint32, limit int) ([]byte, error) {
	length := int64(size &^ stored)
	if length == 0 || length > int64(i.blockSize) || at < superblockSize || at+length > i.metadataEnd {
		return nil, errors.New("squashfs: block outside of the image")
	}
	b := make([]byte, length)
	if _, err := i.r.ReadAt(b, at); err != nil {
		return nil, err
	}
	if size&stored != 0 {
		return b, nil
	}
	return i.decompress(b, limit)
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
