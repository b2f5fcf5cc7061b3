//go:build linux

// Package layers keeps the roots of rooms as overlay layers on the data disk: the layers of each room, its snapshots, and what changed since one.
package layers

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/clone"
)

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

	tidying sync.Mutex // held while layers are made that no stack names yet, and with mu
	mu      sync.Mutex // held while a stack is written, and while unused layers are found
}

const (
	folder    = ".layers" // users have no dot
	stackFile = "stack.json"
	// oldUpper is the folder of the upper layer of rooms without a stack file.
	oldUpper = "upper"
)

// Path returns the folder of a layer.
func (s *Store) Path(id ID) string { return filepath.Join(s.Data, folder, string(id)) }

// Paths returns the folders of layers and the base, the top one first.
func (s *Store) Paths(bottomFirst ...ID) []string {
	paths := []string{s.Base}
	for _, id := range bottomFirst {
		paths = append(paths, s.Path(id))
	}
	slices.Reverse(paths)
	return paths
}

// Open returns the stack of a room that is being made, and creates it and its upper layer.
func (s *Store) Open(user string, uid uint32) (*Stack, error) {
	st, err := s.Read(user)
	if err != nil {
		return nil, err
	}
	if st.Upper == "" || !slices.Equal(st.Mounted, st.Lower) {
		st.Upper, st.Mounted = cmp.Or(st.Upper, newID(uid)), slices.Clone(st.Lower)
		err = s.Write(user, st)
	}
	upper := s.Path(st.Upper)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(upper), 0o700)
	}
	if err == nil {
		if err = os.Rename(filepath.Join(s.Data, user, oldUpper), upper); errors.Is(err, fs.ErrNotExist) {
			err = os.MkdirAll(upper, 0o755)
		}
	}
	if err != nil {
		return nil, err
	}
	return st, errors.Join(os.Chmod(upper, 0o755), os.Chown(upper, 0, 0), s.Own(upper, uid))
}

// Read reads the stack of a room. It is empty if the room was never made.
func (s *Store) Read(user string) (*Stack, error) {
	st, path := &Stack{}, filepath.Join(s.Data, user, stackFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return st, nil
	}
	if err == nil {
		err = json.Unmarshal(text, st)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return st, nil
}

// Write replaces the stack of a room, when all that its layers hold is on the disk.
func (s *Store) Write(user string, st *Stack) error {
	text, err := json.Marshal(st)
	if err != nil {
		return err
	}
	if err := clone.Sync(s.Data); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return config.WriteFile(filepath.Join(s.Data, user, stackFile), text)
}

// Fork makes the stack of a new room from the frozen layers of another one.
func (s *Store) Fork(from *Stack, user string, uid uint32) error {
	return s.Write(user, &Stack{Upper: newID(uid), Lower: from.Lower})
}

// Tidy merges layers that a user's room no longer needs apart: see merge. Then it discards those that no
// stack names.
func (s *Store) Tidy(user string, lock func() (unlock func(), err error)) (err error) {
	s.tidying.Lock()
	defer s.tidying.Unlock()
	for more := true; more; {
		more, err = s.merge(user, lock)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	have, _ := os.ReadDir(filepath.Join(s.Data, folder)) // before the first room, there is none
	used, failed := s.users("")
	if failed != nil { // what it uses is not known
		return errors.Join(err, failed)
	}
	for _, e := range have {
		if id := ID(e.Name()); !used[id] {
			err = errors.Join(err, s.Discard(s.Path(id)))
		}
	}
	return err
}

// users returns the layers that rooms have, without the room of a user.
func (s *Store) users(without string) (map[ID]bool, error) {
	rooms, err := os.ReadDir(s.Data)
	if err != nil {
		return nil, err
	}
	used := map[ID]bool{}
	for _, room := range rooms {
		if room.Name() == without {
			continue
		}
		st, err := s.Read(room.Name())
		if err != nil {
			return nil, err
		}
		for _, id := range st.all() {
			used[id] = true
		}
	}
	return used, nil
}

// Changed reports whether something was written to the upper layer.
func (s *Store) Changed(st *Stack) bool {
	f, err := os.Open(s.Path(st.Upper))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	return err != io.EOF
}
