//go:build linux

// Package layers keeps the roots of rooms as overlay layers on the data disk: the layers of each room, its snapshots, and what changed since one.
package layers

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"osaurus-sandbox/config"
)

// ID names a layer and its folder.
type ID string

func newID() ID { return ID(strings.ToLower(rand.Text()[:16])) }

// Store holds the layers of all rooms. Each room has a folder with a stack file, which is the truth: a
// layer that no stack names is discarded, and an upper layer that is missing is an empty one. So one
// atomic write of a stack switches a room from its old layers to its new ones.
type Store struct {
	Data string // folder of the rooms' folders, each named after its user
	Base string // the lowest folder of all rooms' roots
	// Discard deletes a folder, perhaps later.
	Discard func(path string) error
	// Own makes a new folder belong to the quota of a room's user.
	Own func(path string, uid uint32) error

	squashing sync.Mutex

	mu     sync.Mutex // held while a stack is written, and while unused layers are found
	pinned map[ID]bool
}

const (
	folder    = ".layers" // users have no dot
	stackFile = "stack.json"
	// oldUpper is the folder of the upper layer of rooms without a stack file.
	oldUpper = "upper"
)

// Path returns the folder of a layer.
func (s *Store) Path(id ID) string { return filepath.Join(s.Data, folder, string(id)) }

// Paths returns the folders of layers, the top one first.
func (s *Store) Paths(bottomFirst []ID) []string {
	paths := make([]string, len(bottomFirst))
	for i, id := range bottomFirst {
		paths[len(paths)-1-i] = s.Path(id)
	}
	return paths
}

// Open returns the stack of a room, and creates it and its upper layer.
func (s *Store) Open(user string, uid uint32) (*Stack, error) {
	st, err := s.Read(user)
	if errors.Is(err, fs.ErrNotExist) {
		st = &Stack{Upper: newID()}
		err = s.Write(user, st)
	}
	if err != nil {
		return nil, err
	}
	upper := s.Path(st.Upper)
	if err := os.MkdirAll(filepath.Dir(upper), 0o700); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(upper); errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(filepath.Join(s.Data, user, oldUpper), upper)
		if errors.Is(err, fs.ErrNotExist) {
			err = os.Mkdir(upper, 0o755)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, id := range st.Lower {
		if _, err := os.Lstat(s.Path(id)); err != nil {
			return nil, fmt.Errorf("a frozen layer is missing: %w", err)
		}
	}
	return st, errors.Join(os.Chmod(upper, 0o755), os.Chown(upper, 0, 0), s.Own(upper, uid))
}

// maxStack bounds a stack file. It is far more than all its names.
const maxStack = 64 << 10

// Read reads the stack of a room.
func (s *Store) Read(user string) (*Stack, error) {
	f, err := os.Open(filepath.Join(s.Data, user, stackFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st := &Stack{}
	if err := json.NewDecoder(io.LimitReader(f, maxStack)).Decode(st); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return st, nil
}

// Write replaces the stack of a room. What its frozen layers hold must be on the disk: see Sync.
func (s *Store) Write(user string, st *Stack) error {
	return s.WriteAt(filepath.Join(s.Data, user), st)
}

// WriteAt is Write for the folder of a room, which may be aside.
func (s *Store) WriteAt(dir string, st *Stack) error {
	st.forget()
	text, err := json.Marshal(st)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return config.WriteFile(filepath.Join(dir, stackFile), text)
}

// Fork returns a stack with the frozen layers of another one and a new upper layer, whose folder it
// makes. The caller must write it before unpin.
func (s *Store) Fork(from *Stack, uid uint32) (st *Stack, upper string, unpin func(), err error) {
	st = &Stack{Upper: newID(), Lower: slices.Clone(from.Lower), Layers: maps.Clone(from.Layers)}
	unpin = s.pin(slices.Concat(st.Lower, []ID{st.Upper})...)
	upper = s.Path(st.Upper)
	return st, upper, unpin, errors.Join(os.Mkdir(upper, 0o755), s.Own(upper, uid))
}

// pin keeps a layer that no stack names from being discarded, until unpin.
func (s *Store) pin(ids ...ID) (unpin func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinned == nil {
		s.pinned = map[ID]bool{}
	}
	for _, id := range ids {
		s.pinned[id] = true
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, id := range ids {
			delete(s.pinned, id)
		}
	}
}

// Collect discards the layers that neither a stack names nor a running room has mounted.
func (s *Store) Collect(mounted []ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, err := os.ReadDir(filepath.Join(s.Data, folder))
	if err != nil {
		return ignoreMissing(err)
	}
	used, err := s.users("")
	if err != nil {
		return err
	}
	for _, id := range mounted {
		used[id]++
	}
	for _, e := range have {
		if id := ID(e.Name()); used[id] == 0 && !s.pinned[id] {
			err = errors.Join(err, s.Discard(s.Path(id)))
		}
	}
	return err
}

// users counts the rooms that have a layer, without the room of a user.
func (s *Store) users(without string) (map[ID]int, error) {
	rooms, err := os.ReadDir(s.Data)
	if err != nil {
		return nil, err
	}
	used := map[ID]int{}
	for _, room := range rooms {
		if name := room.Name(); strings.HasPrefix(name, ".") || name == without {
			continue
		}
		st, err := s.Read(room.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err // its layers are not known
		}
		for id := range st.all() {
			used[id]++
		}
	}
	return used, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Changed reports whether something was written to the upper layer.
func (s *Store) Changed(st *Stack) (bool, error) {
	f, err := os.Open(s.Path(st.Upper))
	if err != nil {
		return false, ignoreMissing(err)
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	if err == io.EOF {
		return false, nil
	}
	return true, err
}
