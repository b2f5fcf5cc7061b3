//go:build linux

package layers

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ExportTar writes the tree of a folder as a reproducible PAX archive: sorted by name, with times in
// whole seconds, numeric owners, extended attributes and hard links. Folders on other file systems are
// written empty, and sockets are skipped.
func ExportTar(w io.Writer, folder string) error {
	return writeTar(w, func(t *exporter) error { return t.tree(folder, "") })
}

func writeTar(w io.Writer, write func(*exporter) error) error {
	buf := bufio.NewWriterSize(w, 1<<20)
	t := &exporter{tar: tar.NewWriter(buf)}
	return errors.Join(write(t), t.tar.Close(), buf.Flush())
}

type inode struct{ dev, ino uint64 }

// exporter writes trees that may change meanwhile: it leaves out what is gone, and follows no link out of a tree.
type exporter struct {
	tar    *tar.Writer
	root   *os.Root
	prefix string           // of names: the layer, or ""
	device uint64           // of root
	links  map[inode]string // first name of each file with several
}

func (t *exporter) tree(folder, prefix string) (err error) {
	if t.root, err = os.OpenRoot(folder); err != nil {
		return err
	}
	defer t.root.Close()
	t.prefix, t.links = prefix, map[inode]string{}
	return t.entry(".")
}

// entry writes a file, or a folder and what is in it.
func (t *exporter) entry(name string) error {
	at, err := t.root.OpenFile(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer at.Close()
	info, err := at.Stat()
	if err != nil || info.Mode().Type() == fs.ModeSocket {
		return err
	}
	var f *os.File
	target := ""
	switch info.Mode().Type() {
	case fs.ModeSymlink:
		b := make([]byte, unix.PathMax)
		var n int
		n, err = unix.Readlinkat(int(at.Fd()), "", b)
		target = string(b[:max(n, 0)])
	case 0, fs.ModeDir:
		if f, err = os.Open(fmt.Sprintf("/proc/self/fd/%d", at.Fd())); err == nil {
			defer f.Close()
		}
	}
	if err != nil {
		return err
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	st := info.Sys().(*syscall.Stat_t)
	h.Name, h.Uname, h.Gname, h.Format = path.Join(t.prefix, name), "", "", tar.FormatPAX
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	if t.prefix == "" {
		h.ModTime = h.ModTime.Truncate(time.Second)
	}
	if info.IsDir() {
		h.Name += "/"
	}
	if id := (inode{st.Dev, st.Ino}); st.Nlink > 1 && !info.IsDir() {
		if first, ok := t.links[id]; ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
		} else {
			t.links[id] = h.Name
		}
	}
	if f != nil && h.Typeflag != tar.TypeLink {
		err = attributes(f, h)
	}
	if err == nil {
		err = t.tar.WriteHeader(h)
	}
	if err == nil && h.Typeflag == tar.TypeReg {
		_, err = io.CopyN(t.tar, io.MultiReader(f, zeros{}), h.Size) // whatever its size is by now
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if name == "." {
		t.device = st.Dev
	}
	if !info.IsDir() || st.Dev != t.device {
		return nil
	}
	names, err := f.Readdirnames(-1)
	_, _ = f.Close(), at.Close() // or deep folders are as many open files
	slices.Sort(names)
	for _, in := range names {
		if err == nil {
			err = t.entry(path.Join(name, in))
		}
	}
	return err
}

// zeros reads as zeros without end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

const attributePrefix = "SCHILY.xattr." // in PAX records

// carried reports whether archives have an extended attribute. Overlayfs does not need its other attributes.
func carried(name string) bool {
	return strings.HasPrefix(name, "user.") || slices.Contains([]string{opaque, "security.capability", "system.posix_acl_access", "system.posix_acl_default"}, name)
}

// attributes adds the extended attributes.
func attributes(f *os.File, h *tar.Header) error {
	list := make([]byte, 64<<10) // the kernel's limit
	n, err := unix.Flistxattr(int(f.Fd()), list)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	for name := range strings.SplitSeq(string(list[:max(n, 0)]), "\x00") {
		if !carried(name) || err != nil {
			continue
		}
		value := make([]byte, 64<<10)
		if n, err = unix.Fgetxattr(int(f.Fd()), name, value); errors.Is(err, unix.ENODATA) {
			err = nil
			continue
		}
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords[attributePrefix+name] = string(value[:max(n, 0)])
	}
	return err
}
