//go:build linux

// Package layers keeps the roots of rooms as overlay layers on the data disk: the layers of each room, its snapshots, and what changed since one.
package layers

import (
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
	Run  string // folder in memory
	// Discard deletes a folder, perhaps later.
	Discard func(path string) error
	// Own makes a new folder belong to the quota of a room's user.
	Own func(path string, uid uint32) error

	mu sync.Mutex // held while a stack is written, and while unused layers are found
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

// Open returns the stack of a room that is being made, and creates it and its upper layer. It merges
// what the room no longer needs apart; if that fails, it is done the next time.
func (s *Store) Open(user string, uid uint32) (*Stack, error) {
	st, err := s.Read(user)
	if err == nil && st.Upper == "" {
		st.Upper = newID(uid)
		err = s.Write(user, st)
	}
	if err != nil {
		return nil, err
	}
	upper := s.Path(st.Upper)
	if err := os.MkdirAll(filepath.Dir(upper), 0o700); err != nil {
		return nil, err
	}
	if err = os.Rename(filepath.Join(s.Data, user, oldUpper), upper); errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(upper, 0o755)
	}
	for more := err == nil; more; {
		more, _ = s.merge(user, st)
	}
	return st, errors.Join(err, os.Chmod(upper, 0o755), os.Chown(upper, 0, 0), s.Own(upper, uid))
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

// Sweep discards the layers that no stack names.
func (s *Store) Sweep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, _ := os.ReadDir(filepath.Join(s.Data, folder)) // before the first room, there is none
	used, err := s.used("")
	for _, e := range have {
		if id := ID(e.Name()); err == nil && !used[id] {
			err = s.Discard(s.Path(id))
		}
	}
	return err
}

// used returns the layers that rooms have, without the room of a user.
func (s *Store) used(without string) (map[ID]bool, error) {
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

// Fork makes the stack of a new room from the frozen layers of another one.
func (s *Store) Fork(from *Stack, user string, uid uint32) (*Stack, error) {
	st := &Stack{Upper: newID(uid), Lower: from.Lower}
	return st, s.Write(user, st)
}
