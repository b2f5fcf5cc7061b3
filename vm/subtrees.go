package vm

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"osaurus-sandbox/internal/fault"
)

// Subtree is a folder within a share that has an owner and limits of its own.
type Subtree struct {
	// Path is relative to the share's root, slash-separated and clean.
	Path     string
	UID, GID uint32
	// MaxBytes and MaxFiles limit what the folder may hold; zero is no limit.
	MaxBytes, MaxFiles int64
}

// Subtrees is a share's set of subtrees. The supervisor changes it while the share's
// device reads it. The zero value is empty. Do not copy it.
type Subtrees struct {
	mu      sync.RWMutex
	byPath  map[string]Subtree
	version uint64
}

// Set adds a subtree or replaces the one at the same path.
func (s *Subtrees) Set(t Subtree) error {
	if t.Path == "" || t.Path == "." || t.Path != path.Clean(t.Path) || path.IsAbs(t.Path) || t.Path == ".." || strings.HasPrefix(t.Path, "../") || strings.ContainsRune(t.Path, 0) {
		return fault.New(fault.InvalidArgs, "set subtree", t.Path, nil).Advise("Name a folder below the share's root, such as agents/alice.")
	}
	if t.MaxBytes < 0 || t.MaxFiles < 0 {
		return fault.New(fault.InvalidArgs, "set subtree", t.Path, nil).Advise("Limits are zero (none) or positive.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byPath == nil {
		s.byPath = map[string]Subtree{}
	}
	s.byPath[t.Path] = t
	s.version++
	return nil
}

// Remove forgets the subtree at a path.
func (s *Subtrees) Remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byPath, path)
	s.version++
}

// All returns the subtrees, sorted by path, and the set's version. A nil set is empty.
func (s *Subtrees) All() ([]Subtree, uint64) {
	if s == nil {
		return nil, 0
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.SortedFunc(maps.Values(s.byPath), func(a, b Subtree) int { return cmp.Compare(a.Path, b.Path) }), s.version
}

// Version returns a number that grows with each change.
func (s *Subtrees) Version() uint64 {
	if s == nil {
		return 0
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.version
}
