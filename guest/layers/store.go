//go:build linux

// Package layers keeps the roots of rooms as overlay layers on the data disk: the layers of each room, its snapshots, and what changed since one.
package layers

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
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

// Open returns the stack of a room that is being made, and creates it and its upper layer. It notes the
// base unless that has no name. It merges what the room no longer needs apart; if that fails, it is done
// the next time.
func (s *Store) Open(user string, uid uint32, base string) (*Stack, error) {
	st, err := s.Read(user)
	if err != nil {
		return nil, err
	}
	was := *st
	if st.Upper, st.Base = cmp.Or(st.Upper, newID(uid)), cmp.Or(base, st.Base); st.Upper != was.Upper || st.Base != was.Base {
		if err := s.Write(user, st); err != nil {
			return nil, err
		}
	}
	upper := s.Path(st.Upper)
	err = errors.Join(os.MkdirAll(filepath.Dir(upper), 0o700), os.MkdirAll(upper, 0o755))
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
	st := &Stack{Base: from.Base, Upper: newID(uid), Lower: from.Lower}
	return st, s.Write(user, st)
}

// ID names a layer and its folder. It begins with the uid of the room that wrote it, whose quota it counts
// to.
type ID string

func newID(uid uint32) ID { return ID(fmt.Sprintf("%d-%s", uid, strings.ToLower(rand.Text()[:16]))) }

// UID returns the user id of the room that wrote the layer.
func (id ID) UID() (uid uint32) {
	_, _ = fmt.Sscanf(string(id), "%d-", &uid)
	return uid
}

// Stack lists the layers of a room. Lists of layers begin with the bottom one; the base is below it.
type Stack struct {
	Base      string     `json:"base"`      // the name of the base, or ""
	Upper     ID         `json:"upper"`     // the room writes to it
	Lower     []ID       `json:"lower"`     // frozen
	Snapshots []Snapshot `json:"snapshots"` // the oldest first
}

// Snapshot is a named list of frozen layers.
type Snapshot struct {
	Name   string    `json:"name"`
	Time   time.Time `json:"time"`
	Layers []ID      `json:"layers"`
}

const (
	// maxSnapshots bounds the snapshots of a room that are not automatic. The layers of all count to its quota.
	maxSnapshots = 12
	// maxAutomatic is the number of automatic snapshots that are kept.
	maxAutomatic = 3
	// maxLower bounds the layers of a root: each makes the lookup of a missing file slower.
	maxLower = 24
)

// lists returns the lists of frozen layers that the stack needs.
func (st *Stack) lists() []*[]ID {
	lists := []*[]ID{&st.Lower}
	for i := range st.Snapshots {
		lists = append(lists, &st.Snapshots[i].Layers)
	}
	return lists
}

// all returns the layers that the stack names.
func (st *Stack) all() []ID {
	all := []ID{st.Upper}
	for _, list := range st.lists() {
		all = append(all, *list...)
	}
	return all
}

// Find returns a snapshot.
func (st *Stack) Find(name string) (Snapshot, error) {
	for _, s := range st.Snapshots {
		if s.Name == name {
			return s, nil
		}
	}
	return Snapshot{}, fault.Newf(fault.NotFound, "find snapshot", name, "the room has no such snapshot").Advise("List them: osaurus-sandbox snapshot list AGENT")
}

// Named reports whether a snapshot has the frozen layers as they are.
func (st *Stack) Named() bool {
	return slices.ContainsFunc(st.Snapshots, func(s Snapshot) bool { return slices.Equal(s.Layers, st.Lower) })
}

// Freeze makes the upper layer the top frozen one, with an empty upper layer over it.
func (st *Stack) Freeze() {
	st.Lower = append(slices.Clip(st.Lower), st.Upper)
	st.Upper = newID(st.Upper.UID())
}

// Automatic reports whether a name is that of automatic snapshots.
func Automatic(name string) bool { return strings.HasPrefix(name, engine.AutomaticSnapshot) }

// May checks whether a snapshot of the name can be made.
func (st *Stack) May(name string) error {
	const op = "make snapshot"
	if _, err := st.Find(name); err == nil {
		return fault.Newf(fault.Rejected, op, name, "the room has a snapshot of that name").Advise("Choose another name, or delete that one first.")
	}
	named := 0
	for _, s := range st.Snapshots {
		if !Automatic(s.Name) {
			named++
		}
	}
	if !Automatic(name) && named >= maxSnapshots || len(st.Lower) >= maxLower {
		return fault.Newf(fault.Rejected, op, name, "the room has %d snapshots and %d layers", len(st.Snapshots), len(st.Lower)).
			Advise("Delete snapshots of it, its forks, or snapshots of the agent it was forked from: osaurus-sandbox snapshot delete AGENT NAME")
	}
	return nil
}

// Add adds a snapshot of the frozen layers and returns its name. The name of an automatic one gets the
// time, and only the last ones stay.
func (st *Stack) Add(name string, now time.Time) string {
	if Automatic(name) {
		name += now.UTC().Format("-20060102-150405.000")
	}
	st.Snapshots = append(st.Snapshots, Snapshot{name, now.UTC(), slices.Clone(st.Lower)})
	automatic := 0
	for i, s := range slices.Backward(st.Snapshots) {
		if !Automatic(s.Name) {
			continue
		}
		if automatic++; automatic > maxAutomatic {
			st.Snapshots = slices.Delete(st.Snapshots, i, i+1)
		}
	}
	return name
}

// Restore makes the layers of a snapshot the frozen ones, with an empty upper layer over them.
func (st *Stack) Restore(s Snapshot) {
	st.Lower, st.Upper = slices.Clone(s.Layers), newID(st.Upper.UID())
}

// Delete removes a snapshot. Layers that nothing else needs are discarded, and others merged later.
func (st *Stack) Delete(name string) error {
	_, err := st.Find(name)
	st.Snapshots = slices.DeleteFunc(st.Snapshots, func(s Snapshot) bool { return s.Name == name })
	return err
}

// mergeable returns a list of frozen layers whose last two can be merged, or nil if there is none: both are
// of the same room, no other room has them, and nothing needs the lower one alone.
func (st *Stack) mergeable(shared map[ID]bool) []ID {
	for _, list := range st.lists() {
		for n := 1; n < len(*list); n++ {
			a, b := (*list)[n-1], (*list)[n]
			alone := slices.ContainsFunc(st.lists(), func(other *[]ID) bool {
				i := slices.Index(*other, a) + 1
				return i > 0 && (i == len(*other) || (*other)[i] != b)
			})
			if !alone && !shared[a] && !shared[b] && a.UID() == b.UID() {
				return slices.Clone((*list)[:n+1])
			}
		}
	}
	return nil
}

// drop removes a layer.
func (st *Stack) drop(id ID) {
	for _, list := range st.lists() {
		*list = slices.DeleteFunc(slices.Clone(*list), func(other ID) bool { return other == id })
	}
}
