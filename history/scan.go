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
	"syscall"
	"time"

	"osaurus-sandbox/history/store"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/nofollow"
)

const (
	// maxDepth bounds folders in folders: each takes a descriptor.
	maxDepth = 128
	// maxNames bounds a folder, whose names are all in memory.
	maxNames = 1_000_000
	// racy is how long after a change another one may leave times and size as they are: the
	// resolution of times on the file systems in use, with a margin.
	racy = time.Second
)

// cacheTag and cacheSignature mark folders that backups leave out: https://bford.info/cachedir.
const (
	cacheTag       = "CACHEDIR.TAG"
	cacheSignature = "Signature: 8a477f597d28d172789f06886806bc55"
)

// DefaultCaches returns the names of folders that programs refill.
func DefaultCaches() []string { return []string{".cache", "__pycache__"} }

// scan makes a tree of a folder.
type scan struct {
	h     *History
	ctx   context.Context
	batch *store.Batch
	paths selection
	// trusted is the ctime before which an entry of the last tree is believed.
	trusted int64
	temp    string // the name of files that a killed restore left, which are removed
	out     Checkpoint
}

// folder puts the tree of a folder, given the folder's entry and its last tree. It returns the entry
// with the tree, or one that says why the folder is not kept.
func (s *scan) folder(dir *os.Root, path string, e Entry, last Digest, depth int) (Entry, error) {
	if err := context.Cause(s.ctx); err != nil {
		return e, err
	}
	names, err := list(dir)
	if err != nil {
		return e, fault.Wrap("list folder", path, err)
	}
	if len(names) == maxNames {
		return Entry{Name: e.Name, Kind: TooLarge}, nil
	}
	if depth > 0 && len(s.h.options.Caches) > 0 && slices.Contains(names, cacheTag) && isCache(dir) {
		return Entry{Name: e.Name, Kind: Excluded}, nil
	}
	var old []byte
	var was []Entry
	if last != (Digest{}) {
		if old, err = s.h.store.Read(last); err == nil { // else everything is new
			was, _ = decodeTree(string(old))
		}
	}
	if inside, _ := s.paths.has(path); !inside {
		for _, e := range was {
			names = append(names, e.Name)
		}
	}
	slices.Sort(names)
	entries := make([]Entry, 0, len(names))
	for _, name := range slices.Compact(names) {
		if err := context.Cause(s.ctx); err != nil { // Skip may take long
			return e, err
		}
		at, prev := join(path, name), entryOf(was, name)
		child, err := s.entry(dir, at, name, prev, depth)
		if errors.Is(err, nofollow.ErrReplaced) {
			child, err = s.entry(dir, at, name, prev, depth)
		}
		if errors.Is(err, nofollow.ErrReplaced) { // it is not there for long enough
			continue
		}
		if err != nil {
			return e, err
		}
		if child.Kind != 0 {
			entries = append(entries, child)
		}
	}
	tree := appendTree(make([]byte, 0, len(old)+fixed), entries)
	if e.Content = last; old == nil || !bytes.Equal(tree, old) {
		e.Content, err = s.batch.Put(tree)
	}
	return e, err
}

// list returns at most maxNames names.
func list(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxNames)
	if err == io.EOF {
		err = nil
	}
	return names, err
}

// entry looks at a file, given its last entry. It returns the zero Entry if there is no file.
func (s *scan) entry(dir *os.Root, path, name string, prev Entry, depth int) (Entry, error) {
	if name == s.temp {
		_ = dir.Remove(name)
		return Entry{}, nil
	}
	if inside, above := s.paths.has(path); !inside && !above {
		return prev, nil
	}
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, nil
	}
	if err != nil {
		return Entry{}, fault.Wrap("look at file", path, err)
	}
	if skip := s.h.options.Skip; skip != nil && skip(path, info.IsDir()) {
		return Entry{Name: name, Kind: Excluded}, nil
	}
	if info.IsDir() {
		return s.subfolder(dir, path, Entry{Name: name, Kind: Folder, Mode: info.Mode() & validMode}, prev, depth+1)
	}
	switch info.Mode().Type() {
	case 0:
		if s.h.options.MaxFile > 0 && info.Size() > s.h.options.MaxFile {
			return Entry{Name: name, Kind: TooLarge}, nil
		}
		e := fileEntry(name, info)
		if e.Content = prev.Content; e != prev || e.Ctime >= s.trusted {
			s.out.Read++
			if e, err = s.read(dir, path, name, info); err != nil || e.Kind != File {
				return e, err
			}
		}
		return e, nil
	case fs.ModeSymlink:
		target, err := dir.Readlink(name)
		if err != nil {
			return Entry{}, nofollow.ErrReplaced
		}
		e := fileEntry(name, info)
		e.Kind, e.Mode, e.Target, e.Size = Link, 0, target, int64(len(target))
		return e, nil
	}
	return Entry{Name: name, Kind: Special}, nil
}

// fileEntry returns the entry of a file without its content.
func fileEntry(name string, info fs.FileInfo) Entry {
	return Entry{
		Name: name, Kind: File, Mode: info.Mode() & validMode, Size: info.Size(),
		Mtime: info.ModTime().UnixNano(), Ctime: nofollow.Changed(info).UnixNano(), Inode: info.Sys().(*syscall.Stat_t).Ino,
	}
}

func (s *scan) subfolder(dir *os.Root, path string, e, prev Entry, depth int) (Entry, error) {
	if slices.Contains(s.h.options.Caches, e.Name) {
		return Entry{Name: e.Name, Kind: Excluded}, nil
	}
	if depth > maxDepth {
		return Entry{Name: e.Name, Kind: TooDeep}, nil
	}
	sub, err := nofollow.Folder(dir, e.Name)
	if err == nil {
		defer sub.Close()
		e, err = s.folder(sub, path, e, prev.Tree(), depth)
	}
	if errors.Is(err, fs.ErrPermission) {
		return Entry{Name: e.Name, Kind: Unreadable}, nil
	}
	return e, err
}

// read puts the content of a file. If the file changes meanwhile, it tries once more.
func (s *scan) read(dir *os.Root, path, name string, info fs.FileInfo) (Entry, error) {
	for again := false; ; again = true {
		f, err := nofollow.File(dir, name, info)
		if errors.Is(err, fs.ErrPermission) {
			return Entry{Name: name, Kind: Unreadable}, nil
		}
		if err != nil {
			return Entry{}, err
		}
		if info, err = f.Stat(); err != nil {
			return Entry{}, errors.Join(err, f.Close())
		}
		content, size, err := s.batch.PutFile(s.ctx, f, info.Size())
		after, statErr := f.Stat()
		if err = errors.Join(err, statErr, f.Close()); err != nil {
			return Entry{}, err
		}
		e := fileEntry(name, after)
		changed := e != fileEntry(name, info) || e.Size != size
		e.Content, e.Size = content, size
		if !changed {
			return e, nil
		}
		if again {
			e.Ctime = 0 // so that it is read again
			return e, nil
		}
	}
}

// isCache reports whether a folder's tag is valid.
func isCache(dir *os.Root) bool {
	info, err := dir.Lstat(cacheTag)
	if err != nil {
		return false
	}
	f, err := nofollow.File(dir, cacheTag, info)
	if err != nil {
		return false
	}
	defer f.Close()
	data := make([]byte, len(cacheSignature))
	_, err = io.ReadFull(f, data)
	return err == nil && string(data) == cacheSignature
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "/" + name
}

// selection is a sorted set of paths: all if it is empty. One that ends in a slash is a folder without what is in it.
type selection []string

// has reports whether a path is one of the set or below one, and whether it is above one.
func (s selection) has(path string) (inside, above bool) {
	if len(s) == 0 {
		return true, true
	}
	i, _ := slices.BinarySearch(s, path+"/")
	above = path == "" || i < len(s) && strings.HasPrefix(s[i], path+"/")
	inside = path != "" && i < len(s) && s[i] == path+"/"
	for end := len(path); end > 0 && !inside; end = strings.LastIndexByte(path[:end], '/') {
		_, inside = slices.BinarySearch(s, path[:end])
	}
	return inside, above
}

// parsePaths checks paths of callers.
func parsePaths(paths []string) (selection, error) {
	for _, p := range paths {
		if name := strings.TrimSuffix(p, "/"); !fs.ValidPath(strings.ToValidUTF8(name, "?")) || name == "." || strings.Contains(name, "\x00") {
			return nil, fault.Newf(fault.InvalidArgs, op, p, "not a relative path with slashes").Advise("Name a file as the history shows it.")
		}
	}
	return slices.Sorted(slices.Values(paths)), nil
}
