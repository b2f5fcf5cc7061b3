//go:build linux

package layers

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

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
	// maxSnapshots bounds the snapshots of a room, whose layers all count to its quota.
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
	if !Automatic(name) && len(st.Snapshots) >= maxSnapshots || len(st.Lower) >= maxLower {
		return fault.Newf(fault.Rejected, op, name, "the room has %d snapshots and %d layers", len(st.Snapshots), len(st.Lower)).
			Advise("Delete snapshots of it, and of the agents that it was forked from: osaurus-sandbox snapshot delete AGENT NAME")
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

// mergeable returns a list of frozen layers whose last two are of the same room, which no other room has,
// and of which nothing needs the lower one alone. It returns nil if there is none.
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
