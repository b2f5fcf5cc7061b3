// Package ext4 writes a read-only ext4 file system from a tar archive: the same bytes for the same archive, on every host.
//
// The image has no journal, no free block and the read-only feature: no kernel
// ever mounts it writable. File contents go to the image as they come, in one
// run each; directories, inode tables and bitmaps follow at its end, where the
// flex_bg feature allows them to be.
package ext4

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"osaurus-sandbox/internal/fault"
)

// MaxSize is the largest file system in bytes: as many block groups as one
// block has descriptors for.
const MaxSize = maxGroups * groupBlocks * blockSize

// Archive is a *tar.Reader, or one that has checked what it yields.
type Archive interface {
	Next() (*tar.Header, error)
	io.Reader
}

// Options are the parts of a file system that do not come from the archive.
type Options struct {
	// Label is the volume's name, of at most 16 bytes.
	Label string
	// Dirs are directories that are made, root's and open to all, where the
	// archive does not have them: mount points, since nobody can add one later.
	Dirs []string
}

// Write makes a file system in f, which must be empty, of an archive. Owners,
// permissions, times, extended attributes (as PAX records SCHILY.xattr), devices
// and hard links are kept, also links to files that come later. It fails with fault.Rejected when the archive holds what no file
// system can: two files of one name, a file below a file, a link to nothing.
// What f holds after a failure is good for nothing.
func Write(ctx context.Context, f *os.File, a Archive, o Options) error {
	const op = "write file system"
	w := &writer{out: newBlockWriter(f), tree: newTree()}
	if err := w.readAll(ctx, a); err != nil {
		return fault.New(kindOf(err), op, f.Name(), err)
	}
	if err := w.finish(ctx, f, o); err != nil {
		return fault.New(kindOf(err), op, f.Name(), err)
	}
	return nil
}

// kindOf judges what went wrong: whatever is wrong with the archive forbids it.
func kindOf(err error) fault.Kind {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.Rejected
	}
	return fault.KindOf(err)
}

type writer struct {
	out  *blockWriter
	tree *tree
}

func (w *writer) readAll(ctx context.Context, a Archive) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := a.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.add(h, a); err != nil {
			return fmt.Errorf("%.300q: %w", h.Name, err)
		}
	}
}

// add takes one entry of the archive.
func (w *writer) add(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := clean(h.Name)
	if err != nil {
		return err
	}
	if h.Typeflag == tar.TypeLink {
		target, err := clean(h.Linkname)
		if err != nil {
			return err
		}
		w.tree.linkLater(name, target)
		return nil
	}
	n, err := newNode(h)
	if err != nil {
		return err
	}
	if n, err = w.tree.insert(name, n); err != nil {
		return err
	}
	switch n.kind() {
	case kindFile:
		n.size = h.Size
		n.data, err = w.out.content(content, h.Size)
	case kindSymlink:
		err = w.symlink(n, h.Linkname)
	}
	return err
}

func (w *writer) symlink(n *node, target string) (err error) {
	if target == "" || len(target) >= blockSize || strings.ContainsRune(target, 0) {
		return rejected("a symbolic link to %d bytes", len(target))
	}
	n.size = int64(len(target))
	if len(target) < len(n.block) { // it fits into the inode, with its zero
		copy(n.block[:], target)
		return nil
	}
	n.data, err = w.out.content(strings.NewReader(target), n.size)
	return err
}

// newNode makes the inode of an entry, still without content.
func newNode(h *tar.Header) (*node, error) {
	types := map[byte]uint16{
		tar.TypeReg: kindFile, tar.TypeGNUSparse: kindFile, tar.TypeDir: kindDir, tar.TypeSymlink: kindSymlink,
		tar.TypeChar: kindChar, tar.TypeBlock: kindBlock, tar.TypeFifo: kindFIFO,
	}
	kind, ok := types[h.Typeflag]
	switch {
	case !ok:
		return nil, rejected("entry of an unknown type %q", h.Typeflag)
	case h.Uid < 0 || h.Uid > math.MaxUint32 || h.Gid < 0 || h.Gid > math.MaxUint32:
		return nil, rejected("owner %d:%d is out of range", h.Uid, h.Gid)
	case h.Size < 0:
		return nil, rejected("a size of %d", h.Size)
	}
	n := &node{mode: kind | uint16(h.Mode&permissions), uid: uint32(h.Uid), gid: uint32(h.Gid), mtime: h.ModTime}
	if kind == kindChar || kind == kindBlock {
		if err := n.setDevice(h.Devmajor, h.Devminor); err != nil {
			return nil, err
		}
	}
	const prefix = "SCHILY.xattr."
	for _, key := range slices.Sorted(maps.Keys(h.PAXRecords)) {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			a, err := newXattr(name, h.PAXRecords[key])
			if err != nil {
				return nil, err
			}
			n.xattrs = append(n.xattrs, a)
		}
	}
	return n, nil
}

// finish writes everything that is not file content.
func (w *writer) finish(ctx context.Context, f *os.File, o Options) error {
	if len(o.Label) > labelSize {
		return fault.Newf(fault.InvalidArgs, "", "", "label %q is longer than %d bytes", o.Label, labelSize)
	}
	for _, dir := range o.Dirs {
		name, err := clean(dir)
		if err != nil {
			return err
		}
		if _, err := w.tree.directory(name); err != nil {
			return fmt.Errorf("%q: %w", dir, err)
		}
	}
	if err := w.tree.resolveLinks(); err != nil {
		return err
	}
	for _, n := range w.tree.nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.place(n); err != nil {
			return err
		}
	}
	l, err := w.layOut()
	if err != nil {
		return err
	}
	if err := w.out.finish(l); err != nil {
		return err
	}
	if err := f.Truncate(int64(l.blocks) * blockSize); err != nil {
		return err
	}
	_, err = f.WriteAt(l.head(o.Label), 0)
	return err
}

// place writes what an inode needs beside its file's content: a directory's
// entries, the tree of many extents, attributes that do not fit into it.
func (w *writer) place(n *node) (err error) {
	if n.kind() == kindDir {
		entries := n.entries()
		n.size = int64(len(entries))
		if n.data, err = w.out.raw(entries); err != nil {
			return err
		}
	}
	if leaf := n.setExtents(w.out.next); leaf != nil {
		if _, err = w.out.raw(leaf); err != nil {
			return err
		}
	}
	block, err := n.setXattrs(w.out.next)
	if err != nil || block == nil {
		return err
	}
	_, err = w.out.raw(block)
	return err
}

func rejected(format string, args ...any) error {
	return fault.New(fault.Rejected, "", "", fmt.Errorf(format, args...))
}
