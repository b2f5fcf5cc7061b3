//go:build linux

package main

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// exportTar writes the tree below root as a reproducible PAX archive: sorted by name, with times in
// whole seconds, numeric owners, extended attributes and hard links. Directories on other file
// systems are written empty, and sockets are skipped. The tree must not change meanwhile.
func exportTar(w io.Writer, root string) error {
	buf := bufio.NewWriterSize(w, 1<<20)
	t := &exporter{tar: tar.NewWriter(buf), root: filepath.Clean(root), links: map[inode]string{}, buf: make([]byte, 1<<20)}
	if err := t.dir("."); err != nil {
		return err
	}
	return errors.Join(t.tar.Close(), buf.Flush())
}

type inode struct{ dev, ino uint64 }

type exporter struct {
	tar    *tar.Writer
	root   string
	device uint64           // device number of root
	links  map[inode]string // first name of each file with several
	buf    []byte
}

func (t *exporter) dir(name string) error {
	st, err := t.entry(name)
	if err != nil {
		return err
	}
	if name == "." {
		t.device = st.Dev
	}
	if st.Dev != t.device {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(t.root, name)) // sorted
	if err != nil {
		return err
	}
	for _, e := range entries {
		child := path.Join(name, e.Name())
		if e.IsDir() {
			err = t.dir(child)
		} else {
			_, err = t.entry(child)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry writes one file or the header of a directory.
func (t *exporter) entry(name string) (st *syscall.Stat_t, err error) {
	full := filepath.Join(t.root, name)
	info, err := os.Lstat(full)
	if err != nil {
		return nil, err
	}
	st = info.Sys().(*syscall.Stat_t)
	target := ""
	switch info.Mode().Type() {
	case fs.ModeSocket:
		return st, nil
	case fs.ModeSymlink:
		if target, err = os.Readlink(full); err != nil {
			return nil, err
		}
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return nil, err
	}
	h.Name, h.Uname, h.Gname, h.Format = name, "", "", tar.FormatPAX
	h.ModTime, h.AccessTime, h.ChangeTime = h.ModTime.Truncate(time.Second), time.Time{}, time.Time{}
	if info.IsDir() {
		h.Name += "/"
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
			return st, err
		}
	}
	if err := t.tar.WriteHeader(h); err != nil {
		return st, fmt.Errorf("%s: %w", full, err)
	}
	if h.Typeflag != tar.TypeReg {
		return st, nil
	}
	return st, t.content(full)
}

func (t *exporter) content(full string) error {
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

// attributes adds the extended attributes, except those of overlayfs.
func attributes(full string, h *tar.Header) error {
	list := make([]byte, 64<<10) // the kernel's limit
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
