//go:build linux

package layers

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"osaurus-sandbox/internal/fault"
)

// Stack lists the layers of a room. Lists of layers begin with the bottom one; the base is below it.
type Stack struct {
	Upper     ID           `json:"upper"` // the room writes to it
	Lower     []ID         `json:"lower"` // frozen
	Layers    map[ID]Layer `json:"layers"`
	Snapshots []Snapshot   `json:"snapshots"` // the oldest first
}

// Layer is a frozen layer.
type Layer struct {
	UID   uint32 `json:"uid"` // of the room that wrote it, whose quota it counts to
	Bytes uint64 `json:"bytes"`
}

// Snapshot is a named list of frozen layers.
type Snapshot struct {
	Name      string    `json:"name"`
	Time      time.Time `json:"time"`
	Automatic bool      `json:"automatic"`
	Layers    []ID      `json:"layers"`
}

const (
	// maxSnapshots bounds the snapshots that people make of a room, whose layers all count to its quota.
	maxSnapshots = 8
	// maxAutomatic is the number of automatic snapshots that are kept.
	maxAutomatic = 3
	// maxLower bounds the layers of a root: each makes the lookup of a missing file slower.
	maxLower = 24
)

// all returns the layers that the stack names.
func (st *Stack) all() map[ID]bool {
	all := map[ID]bool{st.Upper: true}
	for _, list := range st.lists() {
		for _, id := range *list {
			all[id] = true
		}
	}
	return all
}

// lists returns all lists of frozen layers.
func (st *Stack) lists() []*[]ID {
	lists := []*[]ID{&st.Lower}
	for i := range st.Snapshots {
		lists = append(lists, &st.Snapshots[i].Layers)
	}
	return lists
}

// forget removes the details of layers that the stack no longer names.
func (st *Stack) forget() {
	all := st.all()
	maps.DeleteFunc(st.Layers, func(id ID, _ Layer) bool { return !all[id] })
}

// Find returns a snapshot.
func (st *Stack) Find(name string) (Snapshot, error) {
	if i := st.index(name); i >= 0 {
		return st.Snapshots[i], nil
	}
	return Snapshot{}, fault.Newf(fault.NotFound, "find snapshot", name, "the room has no such snapshot").Advise("List them: osaurus-sandbox snapshot list AGENT")
}

func (st *Stack) index(name string) int {
	return slices.IndexFunc(st.Snapshots, func(s Snapshot) bool { return s.Name == name })
}

// Named reports whether a snapshot has the frozen layers as they are.
func (st *Stack) Named() bool {
	return slices.ContainsFunc(st.Snapshots, func(s Snapshot) bool { return slices.Equal(s.Layers, st.Lower) })
}

// Freeze makes the upper layer the top frozen one, with an empty upper layer over it.
func (st *Stack) Freeze(l Layer) {
	if st.Layers == nil {
		st.Layers = map[ID]Layer{}
	}
	st.Layers[st.Upper] = l
	st.Lower = append(slices.Clip(st.Lower), st.Upper)
	st.Upper = newID()
}

// May checks whether a snapshot of the name can be made.
func (st *Stack) May(name string, automatic bool) error {
	const op = "make snapshot"
	people := 0
	for _, s := range st.Snapshots {
		if !s.Automatic {
			people++
		}
	}
	switch {
	case st.index(name) >= 0:
		return fault.Newf(fault.Rejected, op, name, "the room has a snapshot of that name").Advise("Choose another name, or delete that one first.")
	case !automatic && people >= maxSnapshots:
		return fault.Newf(fault.Rejected, op, name, "the room has %d snapshots", people).Advise("Delete one that nobody needs: osaurus-sandbox snapshot delete AGENT NAME")
	case len(st.Lower) >= maxLower:
		return fault.Newf(fault.Rejected, op, name, "the room's root has %d layers", len(st.Lower)).Advise("Delete snapshots of it, and of the agents that it was forked from.")
	}
	return nil
}

// Add adds a snapshot of the frozen layers. Only the last automatic ones stay.
func (st *Stack) Add(name string, automatic bool, now time.Time) Snapshot {
	s := Snapshot{Name: name, Time: now.UTC(), Automatic: automatic, Layers: slices.Clone(st.Lower)}
	st.Snapshots = append(st.Snapshots, s)
	old := -maxAutomatic
	for _, s := range st.Snapshots {
		if s.Automatic {
			old++
		}
	}
	st.Snapshots = slices.DeleteFunc(st.Snapshots, func(s Snapshot) bool {
		if !s.Automatic || old <= 0 {
			return false
		}
		old--
		return true
	})
	return s
}

// Automatic returns a free name for an automatic snapshot.
func (st *Stack) Automatic(prefix string, now time.Time) string {
	name := prefix + now.UTC().Format("-20060102-150405")
	for n := 2; st.index(name) >= 0; n++ {
		name = fmt.Sprintf("%s%s.%d", prefix, now.UTC().Format("-20060102-150405"), n)
	}
	return name
}

// Restore makes the layers of a snapshot the frozen ones, with an empty upper layer over them.
func (st *Stack) Restore(s Snapshot) {
	st.Lower, st.Upper = slices.Clone(s.Layers), newID()
}

// Delete removes a snapshot. Layers that nothing else needs are discarded, and others merged later.
func (st *Stack) Delete(name string) error {
	if _, err := st.Find(name); err != nil {
		return err
	}
	i := st.index(name)
	st.Snapshots = slices.Delete(st.Snapshots, i, i+1)
	return nil
}

// mergeable returns two layers of the same room of which nothing needs the lower one alone, and which no
// other room has.
func (st *Stack) mergeable(shared map[ID]int) (lower, upper ID, found bool) {
	above := map[ID]map[ID]bool{}
	note := func(id, next ID) {
		if above[id] == nil {
			above[id] = map[ID]bool{}
		}
		above[id][next] = true
	}
	for i, list := range st.lists() {
		for n, id := range *list {
			switch {
			case n+1 < len(*list):
				note(id, (*list)[n+1])
			case i == 0:
				note(id, st.Upper) // which is not frozen
			default:
				note(id, "") // a snapshot ends here
			}
		}
	}
	for _, list := range st.lists() {
		for n := range len(*list) - 1 {
			a, b := (*list)[n], (*list)[n+1]
			if len(above[a]) == 1 && shared[a]+shared[b] == 0 && st.Layers[a].UID == st.Layers[b].UID {
				return a, b, true
			}
		}
	}
	return "", "", false
}

// below returns the layers below a frozen one, which are the same wherever it is.
func (st *Stack) below(id ID) []ID {
	for _, list := range st.lists() {
		if n := slices.Index(*list, id); n >= 0 {
			return (*list)[:n]
		}
	}
	return nil
}

// merged puts one layer in the place of two.
func (st *Stack) merged(lower, upper, is ID) {
	for _, list := range st.lists() {
		if n := slices.Index(*list, lower); n >= 0 && n+1 < len(*list) && (*list)[n+1] == upper {
			*list = slices.Replace(slices.Clone(*list), n, n+2, is)
		}
	}
	st.Layers[is] = Layer{UID: st.Layers[upper].UID, Bytes: st.Layers[lower].Bytes + st.Layers[upper].Bytes}
}
