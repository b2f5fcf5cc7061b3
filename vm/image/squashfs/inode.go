package squashfs

import "fmt"

// kind is the kind of an inode in its basic form, which directories list.
type kind uint16

const (
	kindDir      kind = 1
	kindFile     kind = 2
	extendedDir  kind = 8
	extendedFile kind = 9
	// noFragment marks a file that does not end in a fragment.
	noFragment = 1<<32 - 1
)

// inode describes a directory or a regular file.
type inode struct {
	kind kind  // kindDir, kindFile or another one
	size int64 // of a file's content or a directory's listing

	listing ref // of a directory

	blocksStart    int64 // of a file
	fragment       uint32
	fragmentOffset uint32
	sizes          []uint32 // of its blocks
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
	switch n.kind = kind(le.Uint16(head)); n.kind {
	case kindDir, extendedDir:
		err = n.readDir(r)
	case kindFile, extendedFile:
		err = n.readFile(r, i.blockSize)
	}
	return n, err
}

func (n *inode) readDir(r *metadataReader) error {
	b, err := r.take(16)
	if err != nil {
		return err
	}
	var start, offset uint64
	if n.kind == extendedDir {
		more, err := r.take(8)
		if err != nil {
			return err
		}
		n.size, start, offset = int64(le.Uint32(b[4:])), uint64(le.Uint32(b[8:])), uint64(le.Uint16(more[2:]))
	} else {
		n.size, start, offset = int64(le.Uint16(b[8:])), uint64(le.Uint32(b)), uint64(le.Uint16(b[10:]))
	}
	n.kind = kindDir
	// The size counts "." and "..", which are not listed, as three bytes.
	if n.size -= 3; n.size < 0 || n.size > maxDirectory {
		return fmt.Errorf("squashfs: directory of %d bytes", n.size)
	}
	n.listing = ref(start<<16 | offset)
	return nil
}

func (n *inode) readFile(r *metadataReader, blockSize uint32) error {
	var size uint64
	if n.kind == extendedFile {
		b, err := r.take(40)
		if err != nil {
			return err
		}
		n.blocksStart, size = int64(le.Uint64(b)), le.Uint64(b[8:])
		n.fragment, n.fragmentOffset = le.Uint32(b[28:]), le.Uint32(b[32:])
	} else {
		b, err := r.take(16)
		if err != nil {
			return err
		}
		n.blocksStart, size = int64(le.Uint32(b)), uint64(le.Uint32(b[12:]))
		n.fragment, n.fragmentOffset = le.Uint32(b[4:]), le.Uint32(b[8:])
	}
	n.kind = kindFile
	if size > maxFile {
		return fmt.Errorf("squashfs: file of %d bytes", size)
	}
	n.size = int64(size)
	blocks := int(n.size / int64(blockSize))
	if n.fragment == noFragment && n.size%int64(blockSize) != 0 {
		blocks++
	}
	b, err := r.take(4 * blocks)
	n.sizes = make([]uint32, len(b)/4)
	for k := range n.sizes {
		n.sizes[k] = le.Uint32(b[4*k:])
	}
	return err
}
