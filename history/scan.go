package history

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/history/store"
	"osaurus-sandbox/internal/fault"
)

const (
	// maxDepth bounds folders in folders: each takes a descriptor.
	maxDepth = 128
	// maxNames bounds a folder, whose names are all in memory.
	maxNames = 1_000_000
	// maxNotes is enough for people. More are dropped.
	maxNotes = 100
	// racy is how long after a change the same times and size may still hide another: the
	// resolution of the times of the file systems in use, with some left over.
	racy = time.Second
)

// cacheTag and cacheSignature mark folders that backups leave out: https://bford.info/cachedir.
const (
	cacheTag       = "CACHEDIR.TAG"
	cacheSignature = "Signature: 8a477f597d28d172789f06886806bc55"
)

// DefaultCaches returns the names of folders that programs fill again by themselves.
func DefaultCaches() []string { return []string{".cache", "__pycache__"} }

// errMoved means that a file was replaced while it was looked at.
var errMoved = errors.New("it was replaced meanwhile")

// scan makes a tree of a folder.
type scan struct {
	h     *History
	ctx   context.Context
	batch *store.Batch
	paths selection
	// trusted is the ctime before which an entry of the last tree is believed.
	trusted int64
	temp    string // name of files that a killed restore left, to remove
	out     Checkpoint
}

// folder makes a tree object of a folder, given its last tree. It returns the kind Excluded for
// a cache, and TooLarge for a folder with too many names.
func (s *scan) folder(dir *os.File, path string, last Digest, depth int) (Digest, Kind, error) {
	if err := context.Cause(s.ctx); err != nil {
		return Digest{}, 0, err
	}
	names, err := dir.Readdirnames(maxNames)
	if err != nil && err != io.EOF {
		return Digest{}, 0, fault.Wrap("list folder", path, err)
	}
	if len(names) == maxNames {
		return Digest{}, TooLarge, nil
	}
	if depth > 0 && slices.Contains(names, cacheTag) && isCache(dir) {
		return Digest{}, Excluded, nil
	}
	var old []byte
	var was []Entry
	if last != (Digest{}) {
		if old, err = s.h.store.Read(last); err == nil { // else all is new
			was, _ = decodeTree(string(old))
		}
	}
	names = s.paths.names(names, path, was)
	slices.Sort(names)
	entries := make([]Entry, 0, len(names))
	for _, name := range names {
		var prev Entry
		for len(was) > 0 && was[0].Name <= name {
			prev, was = was[0], was[1:]
		}
		if prev.Name != name {
			prev = Entry{}
		}
		e, err := s.entry(dir, join(path, name), name, prev, depth)
		if errors.Is(err, errMoved) {
			e, err = s.entry(dir, join(path, name), name, prev, depth)
		}
		if errors.Is(err, errMoved) {
			s.note(join(path, name), errMoved.Error())
			continue
		}
		if err != nil {
			return Digest{}, 0, err
		}
		if e.Kind != 0 {
			entries = append(entries, e)
		}
	}
	tree := appendTree(make([]byte, 0, len(old)+64), entries)
	if old != nil && bytes.Equal(tree, old) {
		return last, Folder, nil
	}
	d, err := s.batch.Put(tree)
	return d, Folder, err
}

// entry looks at a file, given its last entry. The zero Entry means that there is none.
func (s *scan) entry(dir *os.File, path, name string, prev Entry, depth int) (Entry, error) {
	if inside, above := s.paths.has(path); !inside && !above {
		return prev, nil
	}
	if name == s.temp {
		_ = unix.Unlinkat(int(dir.Fd()), name, 0)
		return Entry{}, nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Entry{}, nil
		}
		return Entry{}, fault.Wrap("look at file", path, err)
	}
	e := Entry{Name: name}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		e.Kind, e.Mode = Folder, mode(&st)
		return s.subfolder(dir, path, e, prev, depth+1)
	}
	s.out.Files++
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if s.h.options.MaxFile > 0 && st.Size > s.h.options.MaxFile {
			return s.without(e, TooLarge, path, "it is too large")
		}
		e.Kind, e.Mode = File, mode(&st)
		e.Size, e.Mtime, e.Ctime, e.Inode = st.Size, st.Mtim.Nano(), st.Ctim.Nano(), st.Ino
		if e.Content = prev.Content; e != prev || e.Ctime >= s.trusted {
			s.out.Read++
			var err error
			if e, err = s.read(dir, path, e); err != nil || e.Kind != File {
				return e, err
			}
		}
		s.out.Bytes += e.Size
		return e, nil
	case unix.S_IFLNK:
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
		if err != nil {
			return e, errMoved
		}
		e.Kind, e.Target, e.Size = Link, string(buf[:n]), int64(n)
		return e, nil
	}
	return s.without(e, Special, path, "it is no file, folder or link")
}

// without returns an entry that says why a file is not kept.
func (s *scan) without(e Entry, kind Kind, path, why string) (Entry, error) {
	if kind != Excluded {
		s.note(path, why)
	}
	return Entry{Name: e.Name, Kind: kind}, nil
}

func (s *scan) note(path, why string) {
	if len(s.out.Notes) < maxNotes {
		s.out.Notes = append(s.out.Notes, Note{path, why})
	}
}

func (s *scan) subfolder(dir *os.File, path string, e, prev Entry, depth int) (Entry, error) {
	if slices.Contains(s.h.options.Caches, e.Name) {
		return s.without(e, Excluded, path, "")
	}
	if depth > maxDepth {
		return s.without(e, TooDeep, path, "it is in too many folders")
	}
	sub, err := openAt(dir, e.Name, unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrPermission) {
		return s.without(e, Unreadable, path, "it may not be read")
	}
	if err != nil {
		return e, err
	}
	defer sub.Close()
	var last Digest
	if prev.Kind == Folder {
		last = prev.Content
	}
	d, kind, err := s.folder(sub, path, last, depth)
	switch {
	case errors.Is(err, fs.ErrPermission) && err != nil: // listed, but not entered
		return s.without(e, Unreadable, path, "it may not be read")
	case err != nil:
		return e, err
	case kind == Excluded:
		return s.without(e, Excluded, path, "")
	case kind == TooLarge:
		return s.without(e, TooLarge, path, "it has too many files")
	}
	e.Content = d
	return e, nil
}

// read puts the content of a file. If the file changes meanwhile, it tries again once.
func (s *scan) read(dir *os.File, path string, e Entry) (Entry, error) {
	for again := false; ; again = true {
		f, err := openAt(dir, e.Name, 0)
		if errors.Is(err, fs.ErrPermission) {
			return s.without(e, Unreadable, path, "it may not be read")
		}
		if err != nil {
			return e, err
		}
		var before, after unix.Stat_t
		err = unix.Fstat(int(f.Fd()), &before)
		if err == nil && before.Mode&unix.S_IFMT != unix.S_IFREG {
			err = errMoved
		}
		if err == nil {
			e.Content, e.Size, err = s.batch.PutFile(s.ctx, f, before.Size)
		}
		err = errors.Join(err, unix.Fstat(int(f.Fd()), &after), f.Close())
		if err != nil {
			return e, err
		}
		e.Mode, e.Mtime, e.Ctime, e.Inode = mode(&after), after.Mtim.Nano(), after.Ctim.Nano(), after.Ino
		if before.Size == after.Size && e.Size == after.Size && before.Mtim == after.Mtim && before.Ctim == after.Ctim {
			return e, nil
		}
		if again {
			s.note(path, "it changed while it was read")
			e.Ctime = 0 // to be read again
			return e, nil
		}
	}
}

// openAt opens a file or folder in a folder. It follows no link and waits for no FIFO.
func openAt(dir *os.File, name string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Openat(int(dir.Fd()), name, flags|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), name), nil
		case unix.EINTR:
		case unix.ELOOP, unix.ENOTDIR, unix.ENOENT, unix.ENXIO: // a link, a file, nothing or a socket now
			return nil, errMoved
		default:
			return nil, fault.Wrap("open", name, err)
		}
	}
}

// mode converts the mode of a file.
func mode(st *unix.Stat_t) fs.FileMode {
	m := fs.FileMode(st.Mode & 0o777)
	if st.Mode&unix.S_ISUID != 0 {
		m |= fs.ModeSetuid
	}
	if st.Mode&unix.S_ISGID != 0 {
		m |= fs.ModeSetgid
	}
	if st.Mode&unix.S_ISVTX != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// isCache reports whether a folder's tag is valid.
func isCache(dir *os.File) bool {
	f, err := openAt(dir, cacheTag, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(len(cacheSignature))))
	return err == nil && string(data) == cacheSignature
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "/" + name
}

// selection is a set of paths: all if it is empty.
type selection []string

// has reports whether a path is one of the set or below one, and whether it is above one.
func (s selection) has(path string) (inside, above bool) {
	if len(s) == 0 {
		return true, true
	}
	for _, p := range s {
		inside = inside || p == path || strings.HasPrefix(path, p+"/")
		above = above || path == "" || strings.HasPrefix(p, path+"/")
	}
	return inside, above
}

// names adds to the names of a folder those of its last entries that are not looked at.
func (s selection) names(names []string, path string, was []Entry) []string {
	if inside, _ := s.has(path); inside {
		return names
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		inside, above := s.has(join(path, name))
		return !inside && !above
	})
	for _, e := range was {
		if inside, above := s.has(join(path, e.Name)); !inside && !above {
			names = append(names, e.Name)
		}
	}
	return names
}

// parsePaths checks paths of callers.
func parsePaths(paths []string) (selection, error) {
	for _, p := range paths {
		if !fs.ValidPath(strings.ToValidUTF8(p, "?")) || p == "." || strings.Contains(p, "\x00") {
			return nil, fault.Newf(fault.InvalidArgs, op, p, "not a relative path with slashes").Advise("Name a file as the history shows it.")
		}
	}
	return paths, nil
}
