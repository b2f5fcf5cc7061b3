package review

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/nofollow"
)

// maxText is the size up to which files have hunks and are merged: more is not read by people.
const maxText = 2 << 20

var (
	errNoFolder = errors.New("its folder is missing, or is not a folder")
	errChanged  = errors.New("it has changed meanwhile: review it again")
)

// realFolder reads the real folder, never through a link.
type realFolder struct {
	root *os.Root
	// names of folders, by path, where the file system ignores case. Else it is nil.
	exact map[string][]string
}

// newReal finds out whether the file system ignores case.
func newReal(root *os.Root) (*realFolder, error) {
	r := &realFolder{root: root}
	names, err := r.names(".")
	for _, name := range names {
		for _, other := range []string{strings.ToUpper(name), strings.ToLower(name)} {
			one, err1 := root.Lstat(name)
			two, err2 := root.Lstat(other)
			if err1 == nil && err2 == nil && os.SameFile(one, two) && !slices.Contains(names, other) {
				r.exact = map[string][]string{}
				return r, nil
			}
		}
	}
	return r, err
}

// names lists a folder, or nothing if it is none.
func (r *realFolder) names(dir string) ([]string, error) {
	if names, ok := r.exact[dir]; ok {
		return names, nil
	}
	at, err := nofollow.Folder(r.root, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap("list folder", dir, err)
	}
	defer at.Close()
	d, err := at.Open(".")
	if err != nil {
		return nil, fault.Wrap("list folder", dir, err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fault.Wrap("list folder", dir, err)
	}
	if r.exact != nil {
		r.exact[dir] = names
	}
	return names, nil
}

// sighting is what a path in the real folder was at one moment. Info is nil for nothing.
type sighting struct {
	Version
	info fs.FileInfo
	text []byte // nil if it is no file, or not text
}

// look returns what a path is, without its content.
func (r *realFolder) look(name string) (sighting, error) {
	dir, err := nofollow.Folder(r.root, parent(name))
	if errors.Is(err, fs.ErrNotExist) {
		return sighting{}, nil
	}
	if err != nil {
		return sighting{}, fault.Wrap("look at file", name, err)
	}
	defer dir.Close()
	info, err := dir.Lstat(path.Base(name))
	if errors.Is(err, fs.ErrNotExist) {
		return sighting{}, nil
	}
	if err != nil {
		return sighting{}, fault.Wrap("look at file", name, err)
	}
	for at := name; r.exact != nil && at != "."; at = parent(at) {
		names, err := r.names(parent(at))
		if err != nil || !slices.Contains(names, path.Base(at)) {
			return sighting{}, err
		}
	}
	v := Version{Kind: Other}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		v = Version{Kind: File, Mode: mode.Perm(), Size: info.Size()}
	case mode.IsDir():
		v = Version{Kind: Folder, Mode: mode.Perm()}
	case mode&fs.ModeSymlink != 0:
		v.Kind = Symlink
		if v.Target, err = dir.Readlink(path.Base(name)); err != nil {
			return sighting{}, fault.Wrap("look at file", name, err)
		}
	}
	return sighting{Version: v, info: info}, nil
}

// read is look with the digest of a file's content, and the text.
func (r *realFolder) read(name string) (sighting, error) {
	seen, err := r.look(name)
	if err != nil || seen.Kind != File {
		return seen, err
	}
	f, err := r.open(name, seen.info)
	if err != nil {
		return sighting{}, fault.Wrap("read file", name, err)
	}
	defer f.Close()
	if seen.Digest, seen.text, err = digest(f, seen.Size); err != nil {
		return sighting{}, fault.Wrap("read file", name, err)
	}
	return seen, nil
}

// open opens a file that was seen.
func (r *realFolder) open(name string, seen fs.FileInfo) (*os.File, error) {
	dir, err := nofollow.Folder(r.root, parent(name))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return nofollow.File(dir, path.Base(name), seen)
}

// digest reads a file of the given size. The text is nil if it is too long or binary.
func digest(f io.Reader, size int64) (sum [32]byte, text []byte, err error) {
	hash := sha256.New()
	var kept bytes.Buffer
	to := io.Writer(hash)
	if size <= maxText {
		to = io.MultiWriter(hash, &kept)
	}
	n, err := io.Copy(to, io.LimitReader(f, size+1))
	if err != nil {
		return sum, nil, err
	}
	if n != size {
		return sum, nil, errChanged
	}
	if size <= maxText && !bytes.Contains(kept.Bytes(), []byte{0}) {
		text = append([]byte{}, kept.Bytes()...)
	}
	return [32]byte(hash.Sum(nil)), text, nil
}

// unchanged reports whether two looks saw the same. Nil is nothing.
func unchanged(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	if a.IsDir() { // what is in it may change
		return os.SameFile(a, b)
	}
	return os.SameFile(a, b) && a.Mode() == b.Mode() && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && nofollow.Changed(a).Equal(nofollow.Changed(b))
}

// older reports whether a file was last changed clearly before a moment of the guest's clock.
func older(info fs.FileInfo, born time.Time) bool {
	limit := born.Add(-clockMargin)
	return !born.IsZero() && info.ModTime().Before(limit) && nofollow.Changed(info).Before(limit)
}
