package vm

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"osaurus-sandbox/internal/fault"
)

// Subtree is a folder within a share that has an owner and limits of its own.
type Subtree struct {
	// Path is relative to the share's root, slash-separated and clean.
	Path     string
	UID, GID uint32
	// MaxBytes and MaxFiles limit what the folder may hold; zero is no limit.
	MaxBytes, MaxFiles int64
	// Recounts grows when this computer has changed what the folder holds, which is then counted again.
	Recounts int64
}

// Subtrees is a share's set of subtrees. The supervisor changes it while the share's
// device reads it. The zero value is empty. Do not copy it.
type Subtrees struct {
	mu   sync.Mutex // serializes changes
	list atomic.Pointer[[]Subtree]
}

// Set adds a subtree or replaces the one at the same path.
func (s *Subtrees) Set(t Subtree) error {
	if t.Path == "." || !filepath.IsLocal(t.Path) || t.Path != path.Clean(t.Path) || strings.ContainsRune(t.Path, 0) {
		return fault.New(fault.InvalidArgs, "set subtree", t.Path, nil).Advise("Name a folder below the share's root, such as agents/alice.")
	}
	if t.MaxBytes < 0 || t.MaxFiles < 0 {
		return fault.New(fault.InvalidArgs, "set subtree", t.Path, nil).Advise("Limits are zero (none) or positive.")
	}
	s.replace(t.Path, t)
	return nil
}

// Remove forgets the subtree at a path.
func (s *Subtrees) Remove(path string) { s.replace(path) }

// Recount makes the share's device count the contents of a subtree again, since they were changed on
// this computer.
func (s *Subtrees) Recount(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.list.Load(); old != nil {
		list := slices.Clone(*old)
		for i := range list {
			if list[i].Path == path {
				list[i].Recounts++
			}
		}
		s.list.Store(&list)
	}
}

func (s *Subtrees) replace(path string, by ...Subtree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := by
	if old := s.list.Load(); old != nil {
		for _, t := range *old {
			if t.Path != path {
				list = append(list, t)
			}
		}
	}
	slices.SortFunc(list, func(a, b Subtree) int { return cmp.Compare(a.Path, b.Path) })
	s.list.Store(&list)
}

// Load returns the subtrees, sorted by path, or nil if there never were any. Do not change
// the list. Each change of the set makes a new one.
func (s *Subtrees) Load() *[]Subtree {
	if s == nil {
		return nil
	}
	return s.list.Load()
}
