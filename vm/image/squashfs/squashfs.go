// Package squashfs reads SquashFS 4.0 images as an fs.FS, including those whose xz blocks went through a branch filter, as Alpine's kernel modules do.
package squashfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"strings"
	"sync"
)

// What an image may ask for. Reaching a limit fails what is being read.
const (
	// maxDepth bounds how deep a path goes. The kernel's modules go 10 deep.
	maxDepth = 64
	// maxDirectory bounds a folder's listing in bytes; 4 MiB is room for
	// 100,000 entries.
	maxDirectory = 4 << 20
	// maxFile bounds a file, so that a small image cannot name one without end.
	maxFile = 1 << 30
	// maxLink is Linux's own limit.
	maxLink = 4095
	// maxBlock is the largest block of the format.
	maxBlock = 1 << 20
)

const superblockSize = 96

var le = binary.LittleEndian

// FS is an image. It may be used from any goroutine; reading is one at a time.
// Besides fs.FS it is an fs.ReadDirFS, fs.StatFS and fs.ReadLinkFS. Open does
// not follow symbolic links.
type FS struct {
	r          io.ReaderAt
	blockSize  uint32
	decompress decompressor

	inodeTable, dirTable int64 // where they begin
	metadataEnd          int64 // no metadata is behind it
	fragmentIndex        int64
	fragments            uint32
	root                 ref

	mu       sync.Mutex
	metadata map[int64]metadataBlock // decompressed, by where it is
	fragment struct {                // the one that was read last
		at   int64
		data []byte
	}
	folders map[ref]string // where a folder was first found: there is no other way to it
}

// New reads the superblock of an image of the given size.
func New(r io.ReaderAt, size int64) (*FS, error) {
	var b [superblockSize]byte
	if _, err := r.ReadAt(b[:], 0); err != nil {
		return nil, fmt.Errorf("squashfs: superblock: %w", err)
	}
	if string(b[:4]) != "hsqs" || le.Uint16(b[28:]) != 4 || le.Uint16(b[30:]) != 0 {
		return nil, errors.New("squashfs: not a SquashFS 4.0 image")
	}
	f := &FS{
		r: r, blockSize: le.Uint32(b[12:]), fragments: le.Uint32(b[16:]), root: ref(le.Uint64(b[32:])),
		inodeTable: int64(le.Uint64(b[64:])), dirTable: int64(le.Uint64(b[72:])), fragmentIndex: int64(le.Uint64(b[80:])),
		metadataEnd: int64(le.Uint64(b[40:])),
		metadata:    map[int64]metadataBlock{}, folders: map[ref]string{},
	}
	if f.blockSize < 4096 || f.blockSize > maxBlock || bits.OnesCount32(f.blockSize) != 1 {
		return nil, fmt.Errorf("squashfs: a block size of %d", f.blockSize)
	}
	if f.metadataEnd > size || f.inodeTable < superblockSize || f.inodeTable > f.dirTable || f.dirTable > f.metadataEnd {
		return nil, errors.New("squashfs: the image was cut, or its tables are not in it")
	}
	var err error
	f.decompress, err = newDecompressor(le.Uint16(b[20:]))
	return f, err
}

// Open opens a file, folder or link.
func (f *FS) Open(name string) (fs.File, error) {
	i, err := f.find("open", name)
	if err != nil {
		return nil, err
	}
	switch i.kind {
	case kindFolder:
		return &folder{fs: f, name: name, inode: i}, nil
	case kindFile:
		return f.openFile(name, i), nil
	}
	return &special{info{baseName(name), i}}, nil
}

// Stat describes what a name names, without following links.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	i, err := f.find("stat", name)
	if err != nil {
		return nil, err
	}
	return info{baseName(name), i}, nil
}

// Lstat is Stat.
func (f *FS) Lstat(name string) (fs.FileInfo, error) { return f.Stat(name) }

// ReadLink returns a symbolic link's target.
func (f *FS) ReadLink(name string) (string, error) {
	i, err := f.find("readlink", name)
	if err != nil {
		return "", err
	}
	if i.kind != kindLink {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return i.target, nil
}

// ReadDir lists a folder, sorted by name.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	i, err := f.find("readdir", name)
	if err != nil {
		return nil, err
	}
	entries, err := f.list(name, i)
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	out := make([]fs.DirEntry, len(entries))
	for n, e := range entries {
		out[n] = dirEntry{f, e}
	}
	return out, nil
}

func (f *FS) find(op, name string) (inode, error) {
	i, err := f.walk(name)
	if err != nil {
		return inode{}, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return i, nil
}

func (f *FS) walk(name string) (inode, error) {
	if !fs.ValidPath(name) {
		return inode{}, fs.ErrInvalid
	}
	i, err := f.readInode(f.root)
	if err != nil || name == "." {
		return i, err
	}
	if strings.Count(name, "/") >= maxDepth {
		return inode{}, fmt.Errorf("squashfs: more than %d folders deep", maxDepth)
	}
	for at := 0; at < len(name); {
		part, _, _ := strings.Cut(name[at:], "/")
		parent := "."
		if at > 0 {
			parent = name[:at-1]
		}
		entries, err := f.list(parent, i)
		if err != nil {
			return inode{}, err
		}
		n, found := searchEntry(entries, part)
		if !found {
			return inode{}, fs.ErrNotExist
		}
		if i, err = f.readInode(entries[n].ref); err != nil {
			return inode{}, err
		}
		at += len(part) + 1
	}
	return i, nil
}
