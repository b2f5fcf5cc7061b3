// Package store keeps content by its SHA-256 digest in one folder.
//
// Each file of up to ChunkSize bytes is one object, and so is each chunk of a larger file. An object is
// written elsewhere and then renamed, without sync: after a kill of the process, all objects are whole. After a
// power loss, the latest may be missing or damaged, which readers and Verify notice.
package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"osaurus-sandbox/internal/fault"
)

// ChunkSize is the size of the objects of a large file: large enough for a short list, and small enough
// that a changed byte costs little.
const ChunkSize = 16 << 20

const (
	op = "use history"
	// private keeps other users out, since objects are other people's files.
	private fs.FileMode = 0o700
	// readOnly protects objects from mistakes.
	readOnly fs.FileMode = 0o400
)

// ErrDamaged is in the chain of errors about objects whose bytes do not match their digest.
var ErrDamaged = errors.New("the object is damaged")

// Store is a folder of objects. One process at a time may open it.
type Store struct {
	dir string

	mu      sync.Mutex
	max     int64    // bytes of all objects, or zero
	used    int64    // -1 until it is counted
	running int      // batches and sweeps
	batches []*Batch // that began since any of those did
}

// Open opens or makes a store of at most max bytes, or of any size if max is zero. It removes
// what a killed process was writing.
func Open(dir string, max int64) (*Store, error) {
	s := &Store{dir: dir, max: max, used: -1}
	err := errors.Join(os.RemoveAll(s.path("tmp")), os.MkdirAll(s.path("objects"), private), os.Chmod(dir, private))
	for i := 0; i < 256 && err == nil; i++ {
		err = os.MkdirAll(filepath.Dir(s.object(Digest{byte(i)})), private)
	}
	if err = errors.Join(err, os.MkdirAll(s.path("tmp"), private), os.MkdirAll(s.path("damaged"), private)); err != nil {
		return nil, fault.New(fault.Unavailable, "open history", dir, err).Advise("Make the folder writable for you.")
	}
	return s, nil
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

func (s *Store) object(d Digest) string {
	name := d.String()
	return s.dir + "/objects/" + name[:2] + "/" + name[2:]
}

// has reports whether an object is there and was written completely.
func (s *Store) has(d Digest, size int64) bool {
	info, err := os.Lstat(s.object(d))
	return err == nil && info.Size() == size
}

// Has reports whether there is an object.
func (s *Store) Has(d Digest) bool {
	_, err := os.Lstat(s.object(d))
	return err == nil
}

// Limit changes how many bytes all objects may have. Zero is without a limit.
func (s *Store) Limit(max int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.max = max
}

// Used returns the bytes of all objects.
func (s *Store) Used() (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usedLocked()
}

func (s *Store) usedLocked() (int64, error) {
	if s.used >= 0 {
		return s.used, nil
	}
	used := int64(0)
	err := s.each(func(_ string, info fs.FileInfo) error {
		used += info.Size()
		return nil
	})
	if err == nil {
		s.used = used
	}
	return used, err
}

// each calls f for each file among the objects.
func (s *Store) each(f func(path string, info fs.FileInfo) error) error {
	return filepath.WalkDir(s.path("objects"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		return f(path, info)
	})
}

// WriteFile replaces a file of the store's owner atomically. Its name must not be one of the
// store's: objects, tmp and damaged.
func (s *Store) WriteFile(name string, data []byte) error {
	tmp, err := s.temporary(data)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(s.path(name)), private)
	}
	if err == nil {
		err = os.Rename(tmp, s.path(name))
	}
	if err != nil {
		return errors.Join(fault.New(fault.Unavailable, "write history", name, err), remove(tmp))
	}
	return nil
}

// temporary writes a temporary file and returns its path.
func (s *Store) temporary(data []byte) (string, error) {
	f, err := os.CreateTemp(s.path("tmp"), "")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	return f.Name(), errors.Join(err, f.Close())
}

// remove removes a file, if there is any.
func remove(path string) error {
	if err := os.Remove(path); path != "" && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
