//go:build linux

package files

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/fault"
)

const (
	// tries is how often to look up a path that keeps changing.
	tries = 16
	// maxLinks bounds the symbolic links on a path, as Linux does.
	maxLinks = 40
)

// spot is a name in an open folder, so that a file can be made or replaced without another lookup.
type spot struct {
	root   int // a descriptor
	folder *os.File
	name   string
	shown  string // the whole path, for errors
}

// lookUp opens a path below a folder. Neither links nor ".." lead out of it, and opening a pipe
// does not block.
func lookUp(root int, rel string, flags int, mode uint32) (*os.File, error) {
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	how := unix.OpenHow{
		Flags: uint64(flags) | unix.O_CLOEXEC, Mode: uint64(mode),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	}
	for range tries {
		fd, err := unix.Openat2(root, rel, &how)
		if err == unix.EAGAIN || err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), rel), nil
	}
	return nil, unix.EAGAIN
}

// openRoot opens a path's root folder.
func openRoot(p *guestpb.FilePath) (int, error) {
	return unix.Open(string(p.GetRoot()), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// shown returns the whole path, for errors.
func shown(p *guestpb.FilePath) string { return path.Join(string(p.GetRoot()), string(p.GetPath())) }

// open opens a path.
func open(op string, p *guestpb.FilePath, flags int) (*os.File, error) {
	root, err := openRoot(p)
	if err != nil {
		return nil, explain(op, shown(p), err)
	}
	defer unix.Close(root)
	f, err := lookUp(root, string(p.GetPath()), flags, 0)
	if errors.Is(err, unix.EXDEV) { // the kernel refuses every absolute link, even one that leads back below the root
		var s *spot
		if s, err = find(op, p, false); err == nil {
			defer s.close()
			f, err = lookUp(int(s.folder.Fd()), s.name, flags, 0)
		}
	}
	if err != nil {
		return nil, explain(op, shown(p), err)
	}
	return f, nil
}

// openFile opens a regular file and returns its info.
func openFile(op string, p *guestpb.FilePath, flags int) (*os.File, *guestpb.FileInfo, error) {
	f, err := open(op, p, flags)
	if err != nil {
		return nil, nil, err
	}
	info, err := infoOf(f)
	if err == nil && info.Kind != string(engine.RegularFile) {
		err = notAFile(op, shown(p), info.Kind)
	} else if err != nil {
		err = explain(op, shown(p), err)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// errSpecial is returned for files without contents of their own.
var errSpecial = errors.New("it is a pipe, a socket or a device, not a regular file")

func notAFile(op, path string, kind string) error {
	if kind == string(engine.Folder) {
		return fault.New(fault.InvalidArgs, op, path, unix.EISDIR)
	}
	return fault.New(fault.Rejected, op, path, errSpecial)
}

func infoOf(f *os.File) (*guestpb.FileInfo, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	return info(&st), nil
}

func info(st *unix.Stat_t) *guestpb.FileInfo {
	kinds := map[uint32]engine.FileKind{unix.S_IFREG: engine.RegularFile, unix.S_IFDIR: engine.Folder, unix.S_IFLNK: engine.Link}
	kind := cmp.Or(kinds[st.Mode&unix.S_IFMT], engine.OtherFile)
	return &guestpb.FileInfo{Kind: string(kind), Size: uint64(st.Size), Mode: st.Mode & 0o7777, ModifiedUnixNano: st.Mtim.Nano()}
}

// find returns where a file is or would be made, following links at the last name.
func find(op string, p *guestpb.FilePath, parents bool) (_ *spot, err error) {
	s := &spot{shown: shown(p)}
	if s.root, err = openRoot(p); err != nil {
		return nil, explain(op, s.shown, err)
	}
	rel := path.Clean(string(p.GetPath()))
	for range maxLinks {
		if err := s.at(rel, parents); err != nil {
			s.close()
			return nil, explain(op, s.shown, err)
		}
		to, err := readLink(int(s.folder.Fd()), s.name)
		if err != nil { // not a link, or missing
			return s, nil
		}
		if path.IsAbs(to) {
			below, ok := strings.CutPrefix(path.Clean(to), path.Clean(string(p.GetRoot()))+"/")
			if !ok {
				s.close()
				return nil, explain(op, s.shown, unix.EXDEV)
			}
			rel = below
		} else {
			above, _ := split(rel)
			rel = above + "/" + to // not cleaned: ".." after a linked folder is the parent of its target
		}
	}
	s.close()
	return nil, explain(op, s.shown, unix.ELOOP)
}

// at moves to a path below the root, making parent folders if allowed.
func (s *spot) at(rel string, parents bool) error {
	s.leave()
	above, name := split(rel)
	s.name = name
	switch s.name {
	case ".", "":
		return unix.EISDIR
	case "..":
		return unix.EXDEV
	}
	var err error
	s.folder, err = folder(s.root, above, parents)
	return err
}

// split returns the folder and the last name of a path, without resolving ".." as text.
func split(rel string) (folder, name string) {
	i := strings.LastIndexByte(rel, '/')
	if i < 0 {
		return ".", rel
	}
	return rel[:i], rel[i+1:]
}

// folder opens a folder in which to create names.
func folder(root int, rel string, missing bool) (*os.File, error) {
	f, err := lookUp(root, rel, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if !missing || !errors.Is(err, unix.ENOENT) || rel == "." {
		return f, err
	}
	above, err := folder(root, path.Dir(rel), true)
	if err != nil {
		return nil, err
	}
	defer above.Close()
	const usual = 0o755
	if err := unix.Mkdirat(int(above.Fd()), path.Base(rel), usual); err != nil && err != unix.EEXIST {
		return nil, err
	}
	return lookUp(root, rel, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

func readLink(folder int, name string) (string, error) {
	var to [unix.PathMax]byte
	n, err := unix.Readlinkat(folder, name, to[:])
	if err != nil {
		return "", err
	}
	return string(to[:n]), nil
}

func (s *spot) leave() {
	if s.folder != nil {
		_ = s.folder.Close()
		s.folder = nil
	}
}

func (s *spot) close() {
	s.leave()
	_ = unix.Close(s.root)
}

// errnoOf strips an error down to its errno, because the name may be a temporary one.
func errnoOf(err error) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno
	}
	return err
}

// explain converts a kernel error about a path to a fault with advice.
func explain(op, path string, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok || err == nil {
		return err
	}
	of := func(kind fault.Kind, err error) *fault.Error { return fault.New(kind, op, path, err) }
	switch {
	case errors.Is(err, unix.ENOENT):
		return of(fault.NotFound, unix.ENOENT)
	case errors.Is(err, unix.EXDEV):
		return of(fault.InvalidArgs, errors.New("a link in the path is absolute, or leads out of the folder that the tool may access"))
	case errors.Is(err, unix.ELOOP):
		return of(fault.InvalidArgs, errors.New("too many links in the path"))
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, unix.EINVAL):
		return of(fault.InvalidArgs, err)
	case errors.Is(err, unix.ENXIO):
		return of(fault.Rejected, errSpecial)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		return of(fault.Rejected, err)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return of(fault.Rejected, fmt.Errorf("the agent's disk is full: %w", errnoOf(err))).Advise("Delete what is not needed, or have a person raise the agent's limits.diskMB or limits.homeMB.")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return of(fault.Execution, errors.New("the file became shorter while it was read"))
	}
	return of(fault.Execution, err)
}
