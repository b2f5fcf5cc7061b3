package squashfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

const (
	// stored is set in a block's size where it is not compressed.
	stored = 1 << 24
	// fragmentEntry is the size of an entry of the fragment table.
	fragmentEntry = 16
)

// file is an open regular file, read from its beginning to its end.
type file struct {
	fs    *FS
	name  string
	inode inode
	block int    // the next to read
	at    int64  // where it is in the image
	left  int64  // of the content, that is not in data
	data  []byte // read, and not yet given out
}

func (f *FS) openFile(name string, i inode) *file {
	return &file{fs: f, name: name, inode: i, at: i.blocksStart, left: i.size}
}

func (o *file) Stat() (fs.FileInfo, error) { return info{baseName(o.name), o.inode}, nil }
func (o *file) Close() error               { return nil }

func (o *file) Read(p []byte) (int, error) {
	if len(o.data) == 0 {
		if o.left == 0 {
			return 0, io.EOF
		}
		if err := o.fill(); err != nil {
			return 0, &fs.PathError{Op: "read", Path: o.name, Err: err}
		}
	}
	n := copy(p, o.data)
	o.data = o.data[n:]
	return n, nil
}

// fill reads the next block, or the file's end out of a fragment.
func (o *file) fill() error {
	want := int(min(o.left, int64(o.fs.blockSize)))
	var data []byte
	var err error
	if o.block < len(o.inode.sizes) {
		data, err = o.nextBlock(want)
	} else {
		data, err = o.fs.readFragment(o.inode, want)
	}
	if err != nil {
		return err
	}
	if len(data) != want {
		return fmt.Errorf("squashfs: a block has %d bytes in place of %d", len(data), want)
	}
	o.data, o.left = data, o.left-int64(want)
	return nil
}

func (o *file) nextBlock(want int) ([]byte, error) {
	size := o.inode.sizes[o.block]
	o.block++
	if size == 0 {
		return make([]byte, want), nil // a hole
	}
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	data, err := o.fs.readBlock(o.at, size, want)
	o.at += int64(size &^ stored)
	return data, err
}

// readBlock reads a data block of at most max bytes. The caller holds f.mu.
func (f *FS) readBlock(at int64, size uint32, max int) ([]byte, error) {
	length := int64(size &^ stored)
	if length == 0 || length > int64(f.blockSize) || at < superblockSize || at+length > f.metadataEnd {
		return nil, errors.New("squashfs: a block outside the image")
	}
	b := make([]byte, length)
	if _, err := f.r.ReadAt(b, at); err != nil {
		return nil, err
	}
	if size&stored != 0 {
		return b, nil
	}
	return f.decompress(b, max)
}

// readFragment returns a file's last bytes out of the block that it shares
// with the ends of other files.
func (f *FS) readFragment(i inode, want int) ([]byte, error) {
	if i.fragment >= f.fragments {
		return nil, errors.New("squashfs: a fragment that does not exist")
	}
	const perBlock = metadataSize / fragmentEntry
	var pointer [8]byte
	if _, err := f.r.ReadAt(pointer[:], f.fragmentIndex+8*int64(i.fragment/perBlock)); err != nil {
		return nil, err
	}
	r, err := f.readMetadata(int64(le.Uint64(pointer[:])), ref(i.fragment%perBlock*fragmentEntry))
	if err != nil {
		return nil, err
	}
	b, err := r.take(fragmentEntry)
	if err != nil {
		return nil, err
	}
	data, err := f.fragmentBlock(int64(le.Uint64(b)), le.Uint32(b[8:]))
	if err != nil {
		return nil, err
	}
	if uint64(i.fragmentOffset)+uint64(want) > uint64(len(data)) {
		return nil, errors.New("squashfs: a file's end outside its fragment")
	}
	return data[i.fragmentOffset:][:want], nil
}

func (f *FS) fragmentBlock(at int64, size uint32) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fragment.data != nil && f.fragment.at == at {
		return f.fragment.data, nil
	}
	data, err := f.readBlock(at, size, int(f.blockSize))
	if err != nil {
		return nil, err
	}
	f.fragment.at, f.fragment.data = at, data
	return data, nil
}

// special is an open link, device, pipe or socket, of which there is only the
// description.
type special struct{ info }

func (s *special) Stat() (fs.FileInfo, error) { return s.info, nil }
func (s *special) Close() error               { return nil }

func (s *special) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: s.name, Err: fs.ErrInvalid}
}
