package squashfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// entry is a line of a folder's listing.
type entry struct {
	name string
	kind kind
	ref  ref
}

const (
	// maxRun is how many entries follow one header at most.
	maxRun = 256
	// maxEntryName is Linux's own limit.
	maxEntryName = 255
)

// list returns a folder's entries, sorted by name.
func (f *FS) list(name string, i inode) ([]entry, error) {
	if i.kind != kindFolder {
		return nil, errors.New("not a directory")
	}
	if err := f.claim(name, i.ref); err != nil || i.size == 0 {
		return nil, err
	}
	m, err := f.readMetadata(f.dirTable, i.listing)
	if err != nil {
		return nil, err
	}
	r := &metadataListing{m, int(i.size)}
	var entries []entry
	for r.left > 0 {
		if entries, err = r.run(entries); err != nil {
			return nil, err
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

// claim makes sure that there is one way only to a folder, so that walking the
// image ends.
func (f *FS) claim(name string, at ref) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if before, ok := f.folders[at]; ok && before != name {
		return fmt.Errorf("squashfs: the folder is %q too", before)
	}
	f.folders[at] = name
	return nil
}

// metadataListing reads a listing of a known length.
type metadataListing struct {
	*metadataReader
	left int
}

func (r *metadataListing) take(n int) ([]byte, error) {
	if r.left -= n; r.left < 0 {
		return nil, errors.New("squashfs: a listing that is cut")
	}
	return r.metadataReader.take(n)
}

// run reads a header and the entries that follow it: they share a block of
// the inode table.
func (r *metadataListing) run(entries []entry) ([]entry, error) {
	header, err := r.take(12)
	if err != nil {
		return nil, err
	}
	count, start := le.Uint32(header), uint64(le.Uint32(header[4:]))
	if count >= maxRun {
		return nil, fmt.Errorf("squashfs: a run of %d entries", count)
	}
	for range count + 1 {
		b, err := r.take(8)
		if err != nil {
			return nil, err
		}
		size := int(le.Uint16(b[6:])) + 1
		if size > maxEntryName {
			return nil, fmt.Errorf("squashfs: a name of %d bytes", size)
		}
		name, err := r.take(size)
		if err != nil {
			return nil, err
		}
		e := entry{string(name), kind(le.Uint16(b[4:])), ref(start<<16 | uint64(le.Uint16(b)))}
		if e.name == "." || e.name == ".." || strings.ContainsAny(e.name, "/\x00") {
			return nil, fmt.Errorf("squashfs: an entry named %q", e.name)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func searchEntry(entries []entry, name string) (int, bool) {
	return slices.BinarySearchFunc(entries, name, func(e entry, name string) int { return strings.Compare(e.name, name) })
}

// dirEntry is an fs.DirEntry.
type dirEntry struct {
	fs *FS
	entry
}

func (d dirEntry) Name() string      { return d.name }
func (d dirEntry) IsDir() bool       { return d.kind == kindFolder }
func (d dirEntry) Type() fs.FileMode { return d.kind.mode() }
func (d dirEntry) String() string    { return fs.FormatDirEntry(d) }

func (d dirEntry) Info() (fs.FileInfo, error) {
	i, err := d.fs.readInode(d.ref)
	if err == nil && i.kind != d.kind {
		err = fmt.Errorf("squashfs: %q is of another kind than listed", d.name)
	}
	return info{d.name, i}, err
}

// folder is an open folder.
type folder struct {
	fs    *FS
	name  string
	inode inode
	rest  []fs.DirEntry
	read  bool
}

func (d *folder) Stat() (fs.FileInfo, error) { return info{baseName(d.name), d.inode}, nil }
func (d *folder) Close() error               { return nil }

func (d *folder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: errors.New("is a directory")}
}

func (d *folder) ReadDir(n int) ([]fs.DirEntry, error) {
	if !d.read {
		rest, err := d.fs.ReadDir(d.name)
		if err != nil {
			return nil, err
		}
		d.rest, d.read = rest, true
	}
	if n <= 0 {
		n = len(d.rest)
	} else if len(d.rest) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.rest))
	out := d.rest[:n:n]
	d.rest = d.rest[n:]
	return out, nil
}

func baseName(name string) string { return path.Base(name) }
