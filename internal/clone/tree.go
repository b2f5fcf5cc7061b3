package clone

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"

	"osaurus-sandbox/internal/nofollow"
)

const (
	// maxDepth bounds the depth of folders: each takes three descriptors. Deep trees of programs
	// have some thirty levels.
	maxDepth = 128
	// ours lets the owner of a folder list it and add to it.
	ours fs.FileMode = 0o700
)

// Tree copies what is in a folder into an empty one: files with their holes, folders, links,
// modes and times. It follows no links, and reads what its owner made unreadable. Pipes,
// sockets and devices are left out, and what goes away meanwhile. Each file is as it was when it was
// copied: programs may write meanwhile. Count is as for File.
func Tree(ctx context.Context, from, to *os.Root, count func(int64)) error {
	info, err := from.Stat(".")
	if err != nil {
		return err
	}
	return tree{ctx, to, count, map[inode]string{}}.folder(from, to, ".", info, 0)
}

type tree struct {
	ctx   context.Context
	top   *os.Root // of the copy
	count func(int64)
	links map[inode]string // the first paths of files with several
}

type inode struct{ device, number uint64 }

func (t tree) folder(from, to *os.Root, at string, info fs.FileInfo, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%q: there are more than %d folders in one another", at, maxDepth)
	}
	in, err := from.Open(".")
	if err != nil {
		return err
	}
	defer in.Close()
	names, err := in.Readdirnames(-1)
	for _, name := range names {
		if err == nil {
			err = t.entry(from, to, at, name, depth)
		}
	}
	if err != nil {
		return err
	}
	return finish(to, ".", info)
}

func (t tree) entry(from, to *os.Root, dir, name string, depth int) error {
	if err := context.Cause(t.ctx); err != nil {
		return err
	}
	info, err := from.Lstat(name)
	switch {
	case err != nil:
	case info.IsDir():
		err = t.subfolder(from, to, path.Join(dir, name), name, info, depth)
	case info.Mode().Type() == fs.ModeSymlink:
		var target string
		if target, err = from.Readlink(name); err == nil {
			err = to.Symlink(target, name)
		}
	case info.Mode().IsRegular():
		err = t.file(from, to, path.Join(dir, name), name, info)
	}
	if errors.Is(err, nofollow.ErrReplaced) || err != nil && gone(from, name) {
		return nil
	}
	return err
}

func gone(dir *os.Root, name string) bool {
	_, err := dir.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}

func (t tree) subfolder(from, to *os.Root, at, name string, info fs.FileInfo, depth int) error {
	defer unlock(from, name, info.Mode(), 0o500)()
	in, err := nofollow.Folder(from, name)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := to.Mkdir(name, ours); err != nil {
		return err
	}
	out, err := to.OpenRoot(name)
	if err != nil {
		return err
	}
	defer out.Close()
	return t.folder(in, out, at, info, depth+1)
}

func (t tree) file(from, to *os.Root, at, name string, info fs.FileInfo) error {
	st := info.Sys().(*syscall.Stat_t)
	id := inode{uint64(st.Dev), st.Ino}
	if first := t.links[id]; first != "" {
		return t.top.Link(first, at)
	}
	defer unlock(from, name, info.Mode(), 0o400)()
	in, err := nofollow.File(from, name, info)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := File(t.ctx, in, to, name, t.count)
	if err != nil {
		return err
	}
	if st.Nlink > 1 {
		t.links[id] = at
	}
	return errors.Join(out.Close(), finish(to, name, info))
}

// unlock lets the owner read a file or folder, until the function that it returns is called.
func unlock(dir *os.Root, name string, mode, need fs.FileMode) (lock func()) {
	if mode&need == need {
		return func() {}
	}
	_ = dir.Chmod(name, mode.Perm()|ours) // the next step fails if it matters
	return func() { _ = dir.Chmod(name, mode.Perm()) }
}

// finish gives a complete copy the mode and the times of its original.
func finish(to *os.Root, name string, info fs.FileInfo) error {
	return errors.Join(to.Chmod(name, info.Mode().Perm()), to.Chtimes(name, info.ModTime(), info.ModTime()))
}
