//go:build linux

// Package export writes a directory tree as a tar archive that depends on nothing but what is in the tree.
package export

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Tar writes the tree below root in the PAX format: sorted by name, times in
// whole seconds, owners by number, extended attributes, hard links as links.
// A directory on which something else is mounted is written empty. Sockets are
// left out. The tree must not change meanwhile.
func Tar(w io.Writer, root string) error {
	mounted, err := mountPoints()
	if err != nil {
		return err
	}
	buf := bufio.NewWriterSize(w, 1<<20)
	t := &tree{tar: tar.NewWriter(buf), root: filepath.Clean(root), mounted: mounted, links: map[inode]string{}, buf: make([]byte, 1<<20)}
	if err := t.dir("."); err != nil {
		return err
	}
	return errors.Join(t.tar.Close(), buf.Flush())
}

type inode struct{ dev, ino uint64 }

type tree struct {
	tar     *tar.Writer
	root    string
	mounted map[string]bool
	links   map[inode]string // the first name of a file with several
	buf     []byte
}

func (t *tree) dir(name string) error {
	if err := t.entry(name); err != nil {
		return err
	}
	full := filepath.Join(t.root, name)
	if name != "." && t.mounted[full] {
		return nil
	}
	entries, err := os.ReadDir(full) // sorted
	if err != nil {
		return err
	}
	for _, e := range entries {
		child := path.Join(name, e.Name())
		if e.IsDir() {
			err = t.dir(child)
		} else {
			err = t.entry(child)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry writes one file, or the header of a directory.
func (t *tree) entry(name string) error {
	full := filepath.Join(t.root, name)
	var st unix.Stat_t
	if err := unix.Lstat(full, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: full, Err: err}
	}
	h := &tar.Header{
		Name: name, Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid),
		ModTime: time.Unix(int64(st.Mtim.Sec), 0), Format: tar.FormatPAX,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case unix.S_IFREG:
		h.Typeflag, h.Size = tar.TypeReg, st.Size
	case unix.S_IFLNK:
		target, err := os.Readlink(full)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
	case unix.S_IFCHR, unix.S_IFBLK:
		h.Typeflag = tar.TypeChar
		if st.Mode&unix.S_IFMT == unix.S_IFBLK {
			h.Typeflag = tar.TypeBlock
		}
		h.Devmajor, h.Devminor = int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev))
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	default:
		return nil
	}
	if id := (inode{st.Dev, st.Ino}); st.Nlink > 1 && h.Typeflag != tar.TypeDir {
		if first, ok := t.links[id]; ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
		} else {
			t.links[id] = name
		}
	}
	if h.Typeflag != tar.TypeLink {
		if err := attributes(full, h); err != nil {
			return err
		}
	}
	if err := t.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("%s: %w", full, err)
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	return t.content(full)
}

func (t *tree) content(full string) error {
	f, err := os.OpenFile(full, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.CopyBuffer(struct{ io.Writer }{t.tar}, struct{ io.Reader }{f}, t.buf); err != nil {
		return fmt.Errorf("%s: %w", full, err)
	}
	return nil
}

// attributes adds the extended attributes, but for those by which an overlay
// keeps its own accounts.
func attributes(full string, h *tar.Header) error {
	list := make([]byte, 64<<10) // the kernel's own limit
	n, err := unix.Llistxattr(full, list)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "listxattr", Path: full, Err: err}
	}
	names := strings.Split(strings.TrimSuffix(string(list[:n]), "\x00"), "\x00")
	sort.Strings(names)
	for _, name := range names {
		if name == "" || strings.HasPrefix(name, "trusted.overlay.") {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(full, name, value)
		if err != nil {
			return &os.PathError{Op: "getxattr " + name, Path: full, Err: err}
		}
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords["SCHILY.xattr."+name] = string(value[:n])
	}
	return nil
}

// mountPoints returns the paths on which something is mounted.
func mountPoints() (map[string]bool, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	points := map[string]bool{}
	s := bufio.NewScanner(f)
	for s.Scan() {
		if fields := strings.Fields(s.Text()); len(fields) > 4 {
			points[unescape(fields[4])] = true
		}
	}
	return points, s.Err()
}

// unescape undoes the kernel's \ooo for spaces and the like.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
