// Package untar reads untrusted tar archives: its entries can be written to a folder without escaping it.
package untar

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"osaurus-sandbox/internal/fault"
)

// Op is the operation in errors of this package.
const Op = "read archive"

// Reader checks and returns the entries of an archive, which may be compressed with gzip
// or zstd. It guarantees that
//
//   - names are relative and clean, without "..", and the root is ".";
//   - each entry comes after its parent, which is a folder and not a link; missing
//     parents are added, owned by root with mode 0755;
//   - only folders are repeated, and remain folders;
//   - hard links name an earlier regular file;
//   - devices are in dev;
//   - entries are regular files, folders, links, devices or pipes, with only mode, owner,
//     time and extended attributes as metadata.
//
// Symbolic links may point anywhere: only the guest follows them.
type Reader struct {
	name    string
	stream  *stream
	tar     *tar.Reader
	kinds   map[string]byte // of every entry so far, by name
	entries int
	names   int           // bytes
	queue   []*tar.Header // for Next to return
}

// NewReader returns a reader of an archive. The name is for errors.
func NewReader(r io.Reader, name string) (*Reader, error) {
	s := &stream{packed: counter{r: r}, close: func() {}}
	reader := &Reader{name: name, stream: s, tar: tar.NewReader(s), kinds: map[string]byte{}}
	if err := s.open(); err != nil {
		return nil, reader.refuse("", err)
	}
	return reader, nil
}

// Close releases the decompressor. It does not close the archive.
func (r *Reader) Close() { r.stream.close() }

// Next returns the next entry. Read returns its content. After the last entry, Next reads
// the rest of the archive and returns io.EOF. Any other error is final. It is
// fault.Rejected if the archive is invalid.
func (r *Reader) Next() (*tar.Header, error) {
	if len(r.queue) == 0 {
		h, err := r.tar.Next()
		if err == io.EOF {
			return nil, r.drain()
		}
		if err != nil {
			return nil, r.refuse("", err)
		}
		if err := r.admit(h); err != nil {
			return nil, r.refuse(h.Name, err)
		}
	}
	h := r.queue[0]
	r.queue = r.queue[1:]
	return h, nil
}

// Read reads the content of the entry that Next returned last.
func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.tar.Read(p)
	if err != nil && err != io.EOF {
		err = r.refuse("", err)
	}
	return n, err
}

// drain reads what follows the end of the tar archive, so that a caller that hashes the
// file gets all of it.
func (r *Reader) drain() error {
	if _, err := io.Copy(io.Discard, r.stream); err != nil {
		return r.refuse("", err)
	}
	return io.EOF
}

// admit checks an entry and queues it after its missing parents.
func (r *Reader) admit(h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return errors.New("it has a global header")
	}
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	clean, err := cleanHeader(name, h)
	if err != nil {
		return err
	}
	if err := r.admitParents(name); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeLink {
		if kind := r.kinds[clean.Linkname]; kind != tar.TypeReg {
			return fmt.Errorf("it is a hard link to %q, which is not an earlier file", clean.Linkname)
		}
	}
	return r.push(clean)
}

func (r *Reader) admitParents(name string) error {
	if name == "." {
		return nil
	}
	for i, c := range name {
		if c != '/' {
			continue
		}
		parent := name[:i]
		switch kind, known := r.kinds[parent]; {
		case !known:
			if err := r.push(&tar.Header{Typeflag: tar.TypeDir, Name: parent, Mode: 0o755, Format: tar.FormatPAX}); err != nil {
				return err
			}
		case kind != tar.TypeDir:
			return fmt.Errorf("its parent %q is not a folder", parent)
		}
	}
	return nil
}

func (r *Reader) push(h *tar.Header) error {
	if r.entries++; r.entries > maxEntries {
		return fmt.Errorf("it has more than %d entries", maxEntries)
	}
	if r.names += len(h.Name); r.names > maxNames {
		return fmt.Errorf("the names of its entries have more than %d bytes", maxNames)
	}
	kind := h.Typeflag
	if kind == tar.TypeLink {
		kind = tar.TypeReg
	}
	if before, known := r.kinds[h.Name]; known && (before != tar.TypeDir || kind != tar.TypeDir) {
		return errors.New("it is a duplicate")
	}
	r.kinds[h.Name] = kind
	r.queue = append(r.queue, h)
	return nil
}

// cleanName returns the relative form of an entry's name.
func cleanName(name string) (string, error) {
	switch {
	case name == "" || strings.ContainsRune(name, 0):
		return "", errors.New("its name is empty or has a zero byte")
	case strings.HasPrefix(name, "/"):
		return "", errors.New("its name is absolute")
	}
	clean := path.Clean(name)
	if len(clean) > maxName {
		return "", fmt.Errorf("its name is longer than %d bytes", maxName)
	}
	for component := range strings.SplitSeq(name, "/") {
		if component == ".." {
			return "", errors.New("its name leads upwards")
		}
		if len(component) > maxComponent {
			return "", fmt.Errorf("a part of its name is longer than %d bytes", maxComponent)
		}
	}
	return clean, nil
}

// XattrPrefix is the prefix of PAX records that are extended attributes.
const XattrPrefix = "SCHILY.xattr."

// cleanHeader returns a header with only the allowed metadata.
func cleanHeader(name string, h *tar.Header) (*tar.Header, error) {
	c := &tar.Header{
		Typeflag: h.Typeflag, Name: name, Mode: h.Mode & 0o7777, Uid: h.Uid, Gid: h.Gid,
		ModTime: time.Unix(min(max(h.ModTime.Unix(), 0), maxTime), 0), Format: tar.FormatPAX,
	}
	if h.Uid < 0 || h.Gid < 0 || h.Uid > maxID || h.Gid > maxID {
		return nil, fmt.Errorf("its owner %d:%d is out of range", h.Uid, h.Gid)
	}
	size := 0
	for key, value := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return nil, errors.New("it is a sparse file: make the archive without tar's --sparse")
		}
		if !strings.HasPrefix(key, XattrPrefix) {
			continue
		}
		if size += len(key) + len(value); size > maxXattrs {
			return nil, fmt.Errorf("its extended attributes have more than %d bytes", maxXattrs)
		}
		if c.PAXRecords == nil {
			c.PAXRecords = map[string]string{}
		}
		c.PAXRecords[key] = value
	}
	return c, cleanKind(c, h)
}

// cleanKind copies the fields that depend on the kind of entry.
func cleanKind(c, h *tar.Header) error {
	if c.Name == "." && h.Typeflag != tar.TypeDir {
		return errors.New("the root is not a folder")
	}
	switch h.Typeflag {
	case tar.TypeReg:
		c.Size = h.Size
	case tar.TypeDir, tar.TypeFifo:
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) > maxTarget || strings.ContainsRune(h.Linkname, 0) {
			return fmt.Errorf("its target is not between 1 and %d bytes", maxTarget)
		}
		c.Linkname = h.Linkname
	case tar.TypeLink:
		target, err := cleanName(h.Linkname)
		if err != nil {
			return fmt.Errorf("it is a hard link to %q: %w", h.Linkname, err)
		}
		c.Linkname = target
	case tar.TypeChar, tar.TypeBlock:
		if !strings.HasPrefix(c.Name, "dev/") {
			return errors.New("it is a device outside dev")
		}
		if h.Devmajor < 0 || h.Devmajor >= 1<<12 || h.Devminor < 0 || h.Devminor >= 1<<20 {
			return errors.New("its device number is out of range")
		}
		c.Devmajor, c.Devminor = h.Devmajor, h.Devminor
	default:
		return fmt.Errorf("it has the unknown type %q", h.Typeflag)
	}
	return nil
}

// refuse returns the error for an invalid entry or archive. If the archive could not be
// read, it returns that error instead.
func (r *Reader) refuse(entry string, err error) error {
	if r.stream.packed.err != nil {
		return r.stream.packed.err
	}
	if entry != "" {
		err = fmt.Errorf("%q: %w", entry, err)
	}
	return fault.New(fault.Rejected, Op, r.name, err).
		Advise("The archive is damaged or malicious: get it again from its source.")
}
