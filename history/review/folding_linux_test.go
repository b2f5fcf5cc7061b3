package review

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// folding is a node of a file system that ignores case, and keeps it, as that of macOS does.
type folding struct {
	fs.Inode
	path string // behind it
}

// stored returns the path of the entry that a name stands for.
func (n *folding) stored(name string) string {
	list, _ := os.ReadDir(n.path)
	for _, e := range list {
		if strings.EqualFold(e.Name(), name) {
			name = e.Name()
		}
	}
	return filepath.Join(n.path, name)
}

func (n *folding) child(ctx context.Context, path string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return nil, fs.ToErrno(err)
	}
	out.FromStat(&st)
	return n.NewInode(ctx, &folding{path: path}, fs.StableAttr{Mode: st.Mode & syscall.S_IFMT, Ino: st.Ino}), 0
}

func (n *folding) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.child(ctx, n.stored(name), out)
}

func (n *folding) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	var st syscall.Stat_t
	err := syscall.Lstat(n.path, &st)
	out.FromStat(&st)
	return fs.ToErrno(err)
}

func (n *folding) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if mode, ok := in.GetMode(); ok {
		if err := syscall.Chmod(n.path, mode); err != nil {
			return fs.ToErrno(err)
		}
	}
	return n.Getattr(ctx, f, out)
}

func (n *folding) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	fd, err := syscall.Open(n.stored(name), int(flags)|syscall.O_CREAT, mode)
	if err != nil {
		return nil, nil, 0, fs.ToErrno(err)
	}
	child, errno := n.child(ctx, n.stored(name), out)
	return child, fs.NewLoopbackFile(fd), 0, errno
}

func (n *folding) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	fd, err := syscall.Open(n.path, int(flags), 0)
	return fs.NewLoopbackFile(fd), 0, fs.ToErrno(err)
}

func (n *folding) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	return fs.NewLoopbackDirStream(n.path)
}

func (n *folding) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if err := syscall.Mkdir(n.stored(name), mode); err != nil {
		return nil, fs.ToErrno(err)
	}
	return n.child(ctx, n.stored(name), out)
}

func (n *folding) Unlink(_ context.Context, name string) syscall.Errno {
	return fs.ToErrno(syscall.Unlink(n.stored(name)))
}

func (n *folding) Rmdir(_ context.Context, name string) syscall.Errno {
	return fs.ToErrno(syscall.Rmdir(n.stored(name)))
}

func (n *folding) Rename(_ context.Context, name string, to fs.InodeEmbedder, newName string, _ uint32) syscall.Errno {
	path := to.(*folding).stored(newName)
	err := syscall.Rename(n.stored(name), path)
	if moved := n.GetChild(name); err == nil && moved != nil {
		moved.Operations().(*folding).path = path
	}
	return fs.ToErrno(err)
}

// foldingFolder mounts one over a folder.
func foldingFolder(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Geteuid() != 0 {
		t.Skip("a file system that ignores case needs root and /dev/fuse")
	}
	behind := t.TempDir()
	root := &folding{path: behind}
	server, err := fs.Mount(dir, root, &fs.Options{MountOptions: fuse.MountOptions{DirectMount: true}})
	must(t, err)
	t.Cleanup(func() { must(t, server.Unmount()) })
}

// An agent, whose file system tells case apart, renames in case only.
func TestCaseOnlyRenames(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
	foldingFolder(t, filepath.Join(dir, "real"))
	w := worldIn(t, dir)
	w.host("README", "read\n", 0o644)
	w.host("Src/Main.go", "main\n", 0o644)
	if _, err := os.Stat(filepath.Join(w.dir, "readme")); err != nil {
		t.Fatal(err)
	}
	put := func(name string, kind Kind, data string) {
		w.entries[name] = &node{Listed: Listed{Path: name, Entry: entry(kind, map[Kind]os.FileMode{File: 0o644, Folder: 0o755}[kind], "")}, data: []byte(data), born: 100}
	}
	put("README", Whiteout, "")
	put("readme", File, "read\n")
	put("Src", Whiteout, "")
	put("src", Folder, "")
	put("src/main.go", File, "main\n")
	if out := w.compute(); len(out.Changes) != 6 {
		t.Errorf("%+v", out.Changes)
	}
	// Without the old name's deletion the new one is in its way.
	if report := w.try(Selection{}, "readme"); len(report.Done) != 0 || len(report.Left) != 1 {
		t.Errorf("%+v", report)
	}
	if report := w.try(Selection{}, "src"); len(report.Done) != 0 || len(report.Left) != 2 {
		t.Errorf("%+v", report)
	}
	equalMaps(t, "real", w.has(), map[string]string{"README": show(File, 0o644, "read\n"), "Src": show(Folder, 0o755, ""), "Src/Main.go": show(File, 0o644, "main\n")})
	w.accept()
	equalMaps(t, "real", w.has(), map[string]string{"readme": show(File, 0o644, "read\n"), "src": show(Folder, 0o755, ""), "src/main.go": show(File, 0o644, "main\n")})
	if out := w.compute(); len(out.Changes) != 0 {
		t.Errorf("%+v", out.Changes)
	}
}
