package clone

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/nofollow"
)

const (
	// maxDepth bounds the depth of folders, since each path is resolved from the top. Deep trees
	// of programs have some thirty levels.
	maxDepth = 256
	// ours lets the owner of a folder list it and add to it.
	ours fs.FileMode = 0o700
	// maxXattrs bounds the extended attributes of a file, as Linux does.
	maxXattrs = 64 << 10
)

// Node is a file or a folder of a tree.
type Node struct {
	Path string // relative to the top, which is "."
	fs.FileInfo
	// Target is what a symbolic link points to.
	Target string
	// Link is the name of an earlier node that is the same file, or empty.
	Link string
}

// Walk visits everything below root, folders before what is in them, in the order of names. It
// follows no links, and reads folders that their owner made unreadable. What goes away meanwhile is
// left out. It fails with InvalidArgs on a tree that is too deep.
func Walk(ctx context.Context, root *os.Root, visit func(Node) error) error {
	w := walk{ctx, root, visit, map[inode]string{}}
	return w.at(".", 0)
}

type walk struct {
	ctx   context.Context
	root  *os.Root
	visit func(Node) error
	links map[inode]string // the first names of files with several
}

type inode struct{ device, number uint64 }

func (w walk) at(name string, depth int) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	if depth > maxDepth {
		return fmt.Errorf("%q: there are more than %d folders in one another", name, maxDepth)
	}
	info, err := w.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) && depth > 0 {
		return nil
	}
	if err != nil {
		return err
	}
	n := Node{Path: name, FileInfo: info}
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		if n.Target, err = w.root.Readlink(name); err != nil {
			return ifThere(err)
		}
	case info.Mode().IsRegular():
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
			id := inode{uint64(st.Dev), st.Ino}
			if n.Link = w.links[id]; n.Link == "" {
				w.links[id] = name
			}
		}
	}
	if err := w.visit(n); err != nil || !info.IsDir() {
		return err
	}
	if mode := info.Mode(); mode&0o500 != 0o500 {
		_ = w.root.Chmod(name, mode.Perm()|ours) // the next step fails if it matters
		defer w.root.Chmod(name, mode.Perm())
	}
	names, err := list(w.root, name)
	if err != nil {
		return ifThere(err)
	}
	for _, entry := range names {
		if err := w.at(path.Join(name, entry), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// list returns the names in a folder. Unlike package fs it supports names that are not UTF-8.
func list(root *os.Root, name string) ([]string, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func ifThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Open opens a regular file of a walk. It fails with fs.ErrNotExist if something else is in its
// place by now.
func (n Node) Open(root *os.Root) (*os.File, error) {
	if n.Mode()&0o400 == 0 {
		_ = root.Chmod(n.Path, n.Mode().Perm()|0o400) // the next step fails if it matters
		defer root.Chmod(n.Path, n.Mode().Perm())
	}
	return nofollow.File(root, n.Path, n.FileInfo)
}

// Sum counts the content of a tree.
type Sum struct {
	Files int64 `json:"files"` // also folders and links
	Bytes int64 `json:"bytes"` // that the files take on the disk
}

// Tree copies what is below one folder into another, an empty one: files with their holes, links,
// modes, times and user attributes. Sockets and devices are left out. Each file is as it was when
// it was copied: programs may write meanwhile.
func Tree(ctx context.Context, from, to *os.Root, count Count) (sum Sum, err error) {
	var folders []Node
	err = Walk(ctx, from, func(n Node) error {
		sum.Files++
		mode := n.Mode()
		switch {
		case n.Path == ".":
			folders = append(folders, n)
		case mode.IsDir():
			folders = append(folders, n)
			if err := to.Mkdir(n.Path, ours); err != nil {
				return err
			}
			return copyFolder(from, to, n.Path)
		case n.Link != "":
			return ifThere(to.Link(n.Link, n.Path))
		case mode.Type() == fs.ModeSymlink:
			return to.Symlink(n.Target, n.Path)
		case mode.IsRegular():
			sum.Bytes += Allocated(n)
			return copyFile(ctx, from, to, n, count)
		case mode.Type() == fs.ModeNamedPipe:
			return errors.Join(mkfifo(to, n.Path, mode.Perm()), to.Chtimes(n.Path, n.ModTime(), n.ModTime()))
		}
		return nil
	})
	// A folder gets its mode and times when nothing is added to it any more.
	for _, n := range slices.Backward(folders) {
		if err == nil {
			err = errors.Join(to.Chtimes(n.Path, n.ModTime(), n.ModTime()), to.Chmod(n.Path, n.Mode().Perm()))
		}
	}
	return sum, err
}

func copyFolder(from, to *os.Root, name string) error {
	in, err := from.Open(name)
	if err != nil {
		return ifThere(err)
	}
	defer in.Close()
	out, err := to.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(copyXattrs(in, out), out.Close())
}

func copyFile(ctx context.Context, from, to *os.Root, n Node, count Count) error {
	in, err := n.Open(from)
	if err != nil {
		return ifThere(err)
	}
	defer in.Close()
	if err := File(ctx, in, to, n.Path, count); err != nil {
		return err
	}
	out, err := to.Open(n.Path)
	if err != nil {
		return err
	}
	return errors.Join(copyXattrs(in, out), out.Chmod(n.Mode().Perm()), out.Close(), to.Chtimes(n.Path, n.ModTime(), n.ModTime()))
}

// Xattrs returns the extended attributes of an open file that users may set, if the file system has
// any.
func Xattrs(f *os.File) (map[string]string, error) {
	text := make([]byte, maxXattrs)
	n, err := unix.Flistxattr(int(f.Fd()), text)
	if errors.Is(err, unix.ENOTSUP) || n == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, &fs.PathError{Op: "listxattr", Path: f.Name(), Err: err}
	}
	list := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(text[:n]), "\x00"), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		value := make([]byte, maxXattrs)
		n, err := unix.Fgetxattr(int(f.Fd()), name, value)
		if err != nil {
			return nil, &fs.PathError{Op: "getxattr", Path: f.Name(), Err: err}
		}
		list[name] = string(value[:n])
	}
	return list, nil
}

func copyXattrs(from, to *os.File) error {
	list, err := Xattrs(from)
	for name, value := range list {
		err = errors.Join(err, SetXattr(to, name, value))
	}
	return err
}

// SetXattr sets an extended attribute of an open file. It fails with errors.ErrUnsupported on a file
// system that has none.
func SetXattr(f *os.File, name, value string) error {
	err := unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0)
	if err != nil {
		return &fs.PathError{Op: "setxattr", Path: f.Name(), Err: err}
	}
	return nil
}

// mkfifo makes a pipe in a tree that only this process writes to.
func mkfifo(root *os.Root, name string, mode fs.FileMode) error {
	return unix.Mkfifo(path.Join(root.Name(), name), uint32(mode))
}
