// Package ext4 writes a read-only ext4 file system from a tar archive. The same archive gives the same bytes on every host.
//
// The image has no journal, no free blocks and the read-only feature, so kernels
// never mount it writable. File contents are written as they arrive, each in one
// run. Directories, inode tables and bitmaps follow at the end of the image, as the
// flex_bg feature allows.
package ext4

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm/image/untar"
)

// MaxSize is the largest file system in bytes: as many block groups as one
// block has descriptors for.
const MaxSize = maxGroups * groupBlocks * blockSize

// Write writes a file system with a label of at most 16 bytes to f, which must be empty, from a tar
// archive, which need not be trusted. It reads the archive to its end; the name is for errors. It keeps owners, permissions, modification times, extended attributes, devices and hard
// links, and adds missing directories. It fails with fault.Rejected if the archive does not
// fit the file system, and then leaves f unusable.
func Write(ctx context.Context, f *os.File, archive io.Reader, name, label string, dirs ...string) error {
	w := &writer{out: newBlockWriter(f), tree: newTree()}
	err := untar.Walk(archive, name, func(h *tar.Header, content io.Reader) error {
		if err := cmp.Or(ctx.Err(), w.add(h, content)); err != nil {
			return fmt.Errorf("%.300q: %w", h.Name, err)
		}
		return nil
	})
	if err == nil {
		err = w.finish(ctx, f, label, dirs)
	}
	if err != nil {
		return fault.Wrap("write file system", f.Name(), err)
	}
	return nil
}

type writer struct {
	out  *blockWriter
	tree *tree
}

// add adds an entry of the archive, whose names and order untar has checked.
func (w *writer) add(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeLink {
		return w.tree.attach(h.Name, w.tree.byName[h.Linkname]) // an earlier file, as untar checks
	}
	n, err := newNode(h)
	if err != nil {
		return err
	}
	if n, err = w.tree.insert(h.Name, n); err != nil {
		return err
	}
	switch n.kind() {
	case kindFile:
		if n.size = h.Size; n.size > maxFile {
			return rejected("files of more than %d bytes are not supported", maxFile)
		}
		n.data, err = w.out.content(content, h.Size)
	case kindSymlink:
		n.size = int64(len(h.Linkname))
		if len(h.Linkname) < len(n.block) { // it fits into the inode, with its zero
			copy(n.block[:], h.Linkname)
		} else {
			n.data, err = w.out.content(strings.NewReader(h.Linkname), n.size)
		}
	}
	return err
}

var kinds = map[byte]uint16{
	tar.TypeReg: kindFile, tar.TypeDir: kindDir, tar.TypeSymlink: kindSymlink,
	tar.TypeChar: kindChar, tar.TypeBlock: kindBlock, tar.TypeFifo: kindFIFO,
}

// newNode returns the inode of an entry without its content.
func newNode(h *tar.Header) (*node, error) {
	kind := kinds[h.Typeflag]
	n := &node{mode: kind | uint16(h.Mode&permissions), uid: uint32(h.Uid), gid: uint32(h.Gid), mtime: h.ModTime}
	if kind == kindChar || kind == kindBlock {
		n.setDevice(uint32(h.Devmajor), uint32(h.Devminor))
	}
	var attrs []xattr
	for _, key := range slices.Sorted(maps.Keys(h.PAXRecords)) {
		if name, ok := strings.CutPrefix(key, untar.XattrPrefix); ok {
			a, err := newXattr(name, h.PAXRecords[key])
			if err != nil {
				return nil, err
			}
			attrs = append(attrs, a)
		}
	}
	return n, n.setXattrs(attrs)
}

// finish writes everything except the content of files.
func (w *writer) finish(ctx context.Context, f *os.File, label string, dirs []string) error {
	for _, dir := range dirs {
		if err := w.tree.ensureDir(dir); err != nil {
			return fmt.Errorf("%q: %w", dir, err)
		}
	}
	for _, n := range w.tree.nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if n.kind() == kindDir {
			entries := n.entries()
			n.size = int64(len(entries))
			var err error
			if n.data, err = w.out.content(bytes.NewReader(entries), n.size); err != nil {
				return err
			}
		}
		n.setExtents()
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
	_, err = f.WriteAt(l.head(label), 0)
	return err
}

func rejected(format string, args ...any) error {
	return fault.New(fault.Rejected, "", "", fmt.Errorf(format, args...))
}
