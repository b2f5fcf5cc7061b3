//go:build linux

package room

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/network"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/relay"
	"osaurus-sandbox/internal/fault"
)

// Options say what rooms are made of.
type Options struct {
	Processes *process.Manager
	Program   string // this program, to be the first process of rooms
	Base      string // the read-only base
	// BaseName is what the base is known by, or empty. It is asked when a room is made.
	BaseName func() string
	Data     string // where the layers are
	Run      string // a folder of the guest's own, in memory
	// Resolvers is the file of name servers that rooms see. The guest writes
	// into it, and does not replace it.
	Resolvers string
	Shim      string // the guest's program that asks the bridge
	// Relay is the way to the bridge, or nil where the host serves none. It is
	// asked when a room is made.
	Relay  func() *relay.Relay
	Cgroup string // the group of all rooms; the one above must be the root
	// ModulesLoaded is closed when the modules are loaded that rooms' networks need.
	ModulesLoaded <-chan struct{}
}

// Manager makes rooms and knows them.
type Manager struct {
	opts    Options
	prepare func() error // once

	mu      sync.Mutex
	entries map[string]*entry // by user
	slots   map[int]bool      // taken
	// next is the slot to try for the next room. Slots are used in turn: the kernel remembers the
	// connections of a removed room, and would let answers into a new one with its address.
	next int
}

// NewManager returns a keeper of no rooms.
func NewManager(o Options) *Manager {
	m := &Manager{opts: o, entries: map[string]*entry{}, slots: map[int]bool{}}
	m.prepare = sync.OnceValue(m.foundations)
	return m
}

// Prepare makes what all rooms need. Its errors are reported when a room is made.
func (m *Manager) Prepare() { _ = m.prepare() }

// foundations makes what all rooms need.
func (m *Manager) foundations() error {
	if _, err := os.Stat(m.opts.Base); err != nil {
		return fmt.Errorf("find the base: %w", err)
	}
	if b, err := os.ReadFile(namespaceLimit); err == nil && string(b) != "0\n" {
		return fmt.Errorf("%s is %q: a room could make user namespaces", namespaceLimit, b)
	}
	return errors.Join(
		prepareGroups(group(m.opts.Cgroup)),
		os.MkdirAll(m.opts.Data, 0o700), os.Chmod(m.opts.Data, 0o700), // agents pass here only through their mounts
		os.MkdirAll(m.opts.Run, 0o700), os.MkdirAll(point, 0o700), m.sweep())
}

// namespaceLimit is what keeps rooms from making user namespaces.
const namespaceLimit = "/proc/sys/user/max_user_namespaces"

func missing(user string) error {
	return fault.Newf(fault.NotFound, "find room", user, "there is no such room in this boot").Advise("Make it first.")
}

// Program is the guest program's path, outside of the rooms.
func (m *Manager) Program() string { return m.opts.Program }

// Ensure makes a room, or changes one to match the spec, and gives its programs the token.
func (m *Manager) Ensure(ctx context.Context, spec *guestpb.Room, token []byte) (*guestpb.EnsureResponse, error) {
	e, err := m.lock(ctx, spec.User, true)
	if err != nil {
		return nil, err
	}
	defer e.unlock()
	return m.ensure(e, spec, token)
}

func (m *Manager) ensure(e *entry, spec *guestpb.Room, token []byte) (*guestpb.EnsureResponse, error) {
	const op = "make room"
	spec = proto.CloneOf(spec)
	spec.Limits = m.defaults(spec.Limits)
	old := e.room.Load()
	if old == nil || old.dead() {
		if old != nil {
			old.forget()
		}
		if err := m.prepare(); err != nil {
			return nil, fault.New(fault.Unavailable, op, spec.User, err).Advise("Boot the guest with a base disk and the kernel of its pack.")
		}
		r, err := m.make(e, spec, token)
		if err != nil {
			return nil, err
		}
		e.room.Store(r)
		return &guestpb.EnsureResponse{Made: true, Anew: r.anew, Warnings: r.lacks}, nil
	}
	if old.spec.Uid != spec.Uid || old.spec.Home != spec.Home || old.spec.Hostname != spec.Hostname {
		return nil, fault.Newf(fault.Rejected, op, spec.User, "it is there with another user id, home or host name").
			Advise("Remove it first; its layer can stay.")
	}
	if old.unsettled || old.spec.Network != spec.Network || old.spec.HostServices != spec.HostServices {
		old = old.with(old.spec)
		old.unsettled = true // until all that is asked for is done, whatever fails
		e.room.Store(old)
		if err := old.network(spec, m.opts); err != nil {
			return nil, fault.New(fault.Execution, op, spec.User, err).Advise("Set it again; if that fails too: osaurus-sandbox restart")
		}
	}
	if !proto.Equal(old.spec.Limits, spec.Limits) {
		if err := errors.Join(old.limit(spec.Limits), old.fit(spec.Limits.MemoryBytes)); err != nil {
			return nil, fault.New(fault.Execution, op, spec.User, err)
		}
	}
	settled := old.with(spec)
	settled.unsettled = false
	e.room.Store(settled)
	return &guestpb.EnsureResponse{Warnings: old.lacks}, settled.tell(token)
}

// with is the same room with another spec: readers have the old one.
func (r *Room) with(spec *guestpb.Room) *Room {
	changed := *r
	changed.spec = spec
	return &changed
}

// make makes a room where there is none, or a dead one.
func (m *Manager) make(e *entry, spec *guestpb.Room, token []byte) (*Room, error) {
	const op = "make room"
	f, err := refused().Compile()
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, spec.User, err)
	}
	r := &Room{
		spec: spec, layer: filepath.Join(m.opts.Data, spec.User), files: filepath.Join(m.opts.Run, spec.User), group: group(filepath.Join(m.opts.Cgroup, spec.User)),
		lines: newCommandLines(), slot: e.slot, filter: f, made: time.Now(), starts: make(chan struct{}, maxStarts),
	}
	if err := errors.Join(r.group.kill(), network.Disconnect(r.slot)); err != nil {
		return nil, fault.Newf(fault.Unavailable, op, spec.User, "clear what is left of the last one: %w", err)
	}
	if e.room.Load() == nil {
		// Jobs end with the boot, not with the room: their logs can be read afterwards.
		if err := m.discard(filepath.Join(r.layer, "jobs")); err != nil {
			return nil, fault.New(fault.Execution, op, spec.User, err)
		}
	}
	if r.anew, err = m.outgrown(r.layer); err != nil {
		return nil, fault.New(fault.Execution, op, spec.User, err).Advise("If the data disk is full or damaged, reset it.")
	}
	if err := r.folders(m); err != nil {
		return nil, err
	}
	if err := m.start(r, token); err != nil {
		r.forget()
		return nil, errors.Join(err, r.group.kill())
	}
	return r, nil
}

// start gives a room its limits, its access to the bridge and its first process.
func (m *Manager) start(r *Room, token []byte) error {
	const op = "make room"
	if err := r.group.make(); err != nil {
		return fault.New(fault.Unavailable, op, r.spec.User, err)
	}
	if err := errors.Join(r.limit(r.spec.Limits), r.openEvents()); err != nil {
		return fault.New(fault.Execution, op, r.spec.User, err)
	}
	if err := r.openBridge(m.opts, token); err != nil {
		return err
	}
	f, err := begin(m.opts)
	if err != nil {
		return err
	}
	return r.open(f, m.opts)
}

// forget closes what was open for the room. An open deleted folder would keep the disk from being
// made read-only.
func (r *Room) forget() {
	r.bridgeFiles.close()
	_ = r.disk.Close()
}

// Get returns a room in which commands can run. It remakes one whose first process has ended.
func (m *Manager) Get(ctx context.Context, user string) (*Room, error) {
	e, err := m.lock(ctx, user, false)
	if err != nil {
		return nil, err
	}
	defer e.unlock()
	r := e.room.Load()
	if r == nil {
		return nil, missing(user)
	}
	if r.dead() {
		if _, err := m.ensure(e, r.spec, r.bridgeFiles.token); err != nil {
			return nil, err
		}
	}
	return e.room.Load(), nil
}

// Remove ends a room and forgets it. With layer it discards its files too, as a reset does.
func (m *Manager) Remove(ctx context.Context, user string, layer bool) error {
	const op = "end room"
	e, err := m.lock(ctx, user, true) // the layer may be there without a room in this boot
	if err != nil {
		return err
	}
	defer e.unlock()
	if r := e.room.Load(); r != nil {
		r.init.Release() // all that is in its namespaces dies with it
		if !r.dead() {
			return fault.Newf(fault.Execution, op, user, "its first process has not ended").Advise("Try again; a process may be waiting for a share.")
		}
		r.forget()
	}
	if err := errors.Join(group(filepath.Join(m.opts.Cgroup, user)).kill(), network.Disconnect(e.slot)); err != nil {
		return fault.New(fault.Execution, op, user, err).Advise("Try again; a process may be waiting for a share.")
	}
	if layer {
		if err := m.discard(filepath.Join(m.opts.Data, user)); err != nil {
			return fault.New(fault.Execution, op, user, err)
		}
	}
	_ = os.RemoveAll(filepath.Join(m.opts.Run, user))
	e.gone = true
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, user)
	delete(m.slots, e.slot)
	return nil
}

// rooms returns the rooms that exist, by user, or that of one user. It does not wait for rooms in the making.
func (m *Manager) rooms(user string) ([]*Room, error) {
	m.mu.Lock()
	var list []*Room
	for u, e := range m.entries {
		if r := e.room.Load(); (user == "" || u == user) && r != nil && !r.dead() {
			list = append(list, r)
		}
	}
	m.mu.Unlock()
	if user != "" && len(list) == 0 {
		return nil, missing(user)
	}
	slices.SortFunc(list, func(a, b *Room) int { return strings.Compare(a.User(), b.User()) })
	return list, nil
}

// entry holds a user's room, and serializes changes to it.
type entry struct {
	turn chan struct{} // a lock that can be waited for with a context
	slot int
	gone bool // the room was forgotten
	// room is the last one made, or nil. Changing it takes the turn, reading it does not: making
	// a room can take long.
	room atomic.Pointer[Room]
}

// lock waits for a user's turn. With add the user may be a new one.
func (m *Manager) lock(ctx context.Context, user string, add bool) (*entry, error) {
	for {
		e, err := m.entry(user, add)
		if err != nil {
			return nil, err
		}
		select {
		case e.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !e.gone {
			return e, nil
		}
		e.unlock() // for the next who waited
	}
}

// entry finds a user's entry, or with add makes one.
func (m *Manager) entry(user string, add bool) (*entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[user]; e != nil {
		return e, nil
	}
	if !add {
		return nil, missing(user)
	}
	if len(m.slots) == network.MaxRooms {
		return nil, fault.Newf(fault.Rejected, "make room", user, "there are %d rooms", network.MaxRooms).Advise("Delete an agent that is not needed any more.")
	}
	for m.slots[m.next] {
		m.pass()
	}
	e := &entry{turn: make(chan struct{}, 1), slot: m.next}
	m.entries[user], m.slots[m.next] = e, true
	m.pass()
	return e, nil
}

// pass goes on to the next slot.
func (m *Manager) pass() { m.next = (m.next + 1) % network.MaxRooms }

func (e *entry) unlock() { <-e.turn }
