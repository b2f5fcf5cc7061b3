package clone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
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

// Tree copies what is below one folder into another, an empty one: files with their holes, folders, links,
// modes, times and user attributes. It follows no links, and reads what its owner made unreadable. Pipes,
// sockets and devices are left out, and what goes away meanwhile. Each file is as it was when it was
// copied: programs may write meanwhile. Count is as for File.
func Tree(ctx context.Context, from, to *os.Root, count func(int64)) error {
	return tree{ctx, from, to, count, map[inode]string{}}.entry(".", 0)
}

type tree struct {
	ctx      context.Context
	from, to *os.Root
	count    func(int64)
	links    map[inode]string // the first names of files with several
}

type inode struct{ device, number uint64 }

func (t tree) entry(name string, depth int) error {
	if err := context.Cause(t.ctx); err != nil {
		return err
	}
	info, err := t.from.Lstat(name)
	switch {
	case depth > maxDepth:
		return fmt.Errorf("%q: there are more than %d folders in one another", name, maxDepth)
	case err != nil:
	case info.IsDir():
		return t.folder(name, info, depth)
	case info.Mode().Type() == fs.ModeSymlink:
		target, gone := t.from.Readlink(name)
		if err = gone; err == nil {
			return t.to.Symlink(target, name)
		}
	case info.Mode().IsRegular():
		st := info.Sys().(*syscall.Stat_t)
		id := inode{uint64(st.Dev), st.Ino}
		if first := t.links[id]; first != "" {
			return t.to.Link(first, name)
		}
		if err = t.file(name, info); err == nil && st.Nlink > 1 {
			t.links[id] = name
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (t tree) folder(name string, info fs.FileInfo, depth int) error {
	defer t.unlock(name, info.Mode(), 0o500)()
	in, err := t.from.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil // something else is in its place
	}
	if err != nil {
		return err
	}
	defer in.Close()
	names, err := in.Readdirnames(-1)
	if err == nil && depth > 0 {
		err = t.to.Mkdir(name, ours)
	}
	for _, entry := range names {
		if err == nil {
			err = t.entry(path.Join(name, entry), depth+1)
		}
	}
	if err != nil {
		return err
	}
	return t.finish(in, name, info)
}

func (t tree) file(name string, info fs.FileInfo) error {
	defer t.unlock(name, info.Mode(), 0o400)()
	in, err := nofollow.File(t.from, name, info)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := File(t.ctx, in, t.to, name, t.count); err != nil {
		return err
	}
	return t.finish(in, name, info)
}

// unlock lets the owner read a file or folder, until the function that it returns is called.
func (t tree) unlock(name string, mode, need fs.FileMode) (lock func()) {
	if mode&need == need {
		return func() {}
	}
	_ = t.from.Chmod(name, mode.Perm()|ours) // the next step fails if it matters
	return func() { _ = t.from.Chmod(name, mode.Perm()) }
}

// finish gives a complete copy the attributes, the mode and the times of its original.
func (t tree) finish(in *os.File, name string, info fs.FileInfo) error {
	out, err := t.to.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(copyXattrs(in, out), out.Chmod(info.Mode().Perm()), out.Close(), t.to.Chtimes(name, info.ModTime(), info.ModTime()))
}

// copyXattrs copies the extended attributes that users may set, if the file system has any.
func copyXattrs(from, to *os.File) error {
	n, err := unix.Flistxattr(int(from.Fd()), nil)
	if n == 0 || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	text, value := make([]byte, maxXattrs), make([]byte, maxXattrs)
	if err == nil {
		n, err = unix.Flistxattr(int(from.Fd()), text)
	}
	for name := range bytes.SplitSeq(text[:max(n, 0)], []byte{0}) {
		if err != nil || !bytes.HasPrefix(name, []byte("user.")) {
			continue
		}
		if n, err = unix.Fgetxattr(int(from.Fd()), string(name), value); err == nil {
			err = unix.Fsetxattr(int(to.Fd()), string(name), value[:n], 0)
		}
	}
	if err != nil {
		return &fs.PathError{Op: "copy attributes of", Path: from.Name(), Err: err}
	}
	return nil
}
