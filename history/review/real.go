package review

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
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
	// listed has the names in folders, by path. A file system that ignores case finds files by other
	// names too.
	listed map[string]map[string]bool
}

func newReal(root *os.Root) *realFolder {
	return &realFolder{root, map[string]map[string]bool{}}
}

// names lists a folder, or nothing if it is not one.
func (r *realFolder) names(dir string) (map[string]bool, error) {
	if names, ok := r.listed[dir]; ok {
		return names, nil
	}
	names := map[string]bool{}
	at, err := nofollow.Folder(r.root, dir)
	if err == nil {
		defer at.Close()
		var list []fs.DirEntry
		list, err = fs.ReadDir(at.FS(), ".")
		for _, e := range list {
			names[e.Name()] = true
		}
	}
	if err = present(err); err != nil {
		return nil, fault.Wrap("list folder", dir, err)
	}
	r.listed[dir] = names
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
	for at := name; at != "."; at = parent(at) {
		names, err := r.names(parent(at))
		if err != nil || !names[path.Base(at)] {
			return sighting{}, err
		}
	}
	dir, err := nofollow.Folder(r.root, parent(name))
	if err != nil {
		return sighting{}, present(err)
	}
	defer dir.Close()
	info, err := dir.Lstat(path.Base(name))
	if err != nil {
		return sighting{}, present(err)
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
			return sighting{}, err
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
		return sighting{}, err
	}
	defer f.Close()
	seen.Digest, seen.text, err = digest(f, seen.Size)
	return seen, err
}

// open opens a file that was seen, or whatever file is there now if seen is nil.
func (r *realFolder) open(name string, seen fs.FileInfo) (*os.File, error) {
	dir, err := nofollow.Folder(r.root, parent(name))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if seen == nil {
		if seen, err = dir.Lstat(path.Base(name)); err != nil || !seen.Mode().IsRegular() {
			return nil, cmp.Or(err, errChanged)
		}
	}
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
