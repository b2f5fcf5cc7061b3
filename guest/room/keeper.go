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
	Keeper  *process.Keeper
	Program string // this program, to be the first process of rooms
	Base    string // the read-only base
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

// Keeper makes rooms and knows them.
type Keeper struct {
	opts    Options
	prepare func() error // once

	mu    sync.Mutex
	doors map[string]*door // by user
	slots map[int]bool     // taken
	// next is the slot to try for the next room. They are given in turn: the kernel remembers
	// the connections of a room that is gone, and would let answers to them into one that has
	// its address at once.
	next int
}

// NewKeeper returns a keeper of no rooms.
func NewKeeper(o Options) *Keeper {
	k := &Keeper{opts: o, doors: map[string]*door{}, slots: map[int]bool{}}
	k.prepare = sync.OnceValue(k.foundations)
	return k
}

// Prepare makes what all rooms need before the first is made. What is wrong, each
// room will tell.
func (k *Keeper) Prepare() { _ = k.prepare() }

// foundations are what all rooms need, made once.
func (k *Keeper) foundations() error {
	if _, err := os.Stat(k.opts.Base); err != nil {
		return fmt.Errorf("find the base: %w", err)
	}
	if b, err := os.ReadFile(namespaceLimit); err == nil && string(b) != "0\n" {
		return fmt.Errorf("%s is %q: a room could make user namespaces", namespaceLimit, b)
	}
	return errors.Join(
		prepareGroups(group(k.opts.Cgroup)),
		os.MkdirAll(k.opts.Data, 0o700), os.Chmod(k.opts.Data, 0o700), // agents pass here only through their mounts
		os.MkdirAll(k.opts.Run, 0o700), os.MkdirAll(point, 0o700), k.sweep())
}

// namespaceLimit is what keeps rooms from making user namespaces.
const namespaceLimit = "/proc/sys/user/max_user_namespaces"

func missing(user string) error {
	return fault.Newf(fault.NotFound, "find room", user, "there is no such room in this boot").Advise("Make it first.")
}

// Program is the guest program's path, outside of the rooms.
func (k *Keeper) Program() string { return k.opts.Program }

// Ensure makes a room what the spec says. Its programs find the token.
func (k *Keeper) Ensure(ctx context.Context, spec *guestpb.Room, token []byte) (*guestpb.EnsureResponse, error) {
	d, err := k.enter(ctx, spec.User, true)
	if err != nil {
		return nil, err
	}
	defer d.leave()
	return k.ensure(d, spec, token)
}

func (k *Keeper) ensure(d *door, spec *guestpb.Room, token []byte) (*guestpb.EnsureResponse, error) {
	const op = "make room"
	spec = proto.CloneOf(spec)
	spec.Limits = k.defaults(spec.Limits)
	old := d.room.Load()
	if old == nil || old.dead() {
		if old != nil {
			old.forget()
		}
		if err := k.prepare(); err != nil {
			return nil, fault.New(fault.Unavailable, op, spec.User, err).Advise("Boot the guest with a base disk and the kernel of its pack.")
		}
		r, err := k.make(d, spec, token)
		if err != nil {
			return nil, err
		}
		d.room.Store(r)
		return &guestpb.EnsureResponse{Made: true, Anew: r.anew, Warnings: r.lacks}, nil
	}
	if old.spec.Uid != spec.Uid || old.spec.Home != spec.Home || old.spec.Hostname != spec.Hostname {
		return nil, fault.Newf(fault.Rejected, op, spec.User, "it is there with another user id, home or host name").
			Advise("Remove it first; its layer can stay.")
	}
	if old.unsettled || old.spec.Network != spec.Network || old.spec.HostServices != spec.HostServices {
		old = old.with(old.spec)
		old.unsettled = true // until all that is asked for is done, whatever fails
		d.room.Store(old)
		if err := old.network(spec, k.opts); err != nil {
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
	d.room.Store(settled)
	return &guestpb.EnsureResponse{Warnings: old.lacks}, settled.tell(token)
}

// with is the same room with another spec: readers have the old one.
func (r *Room) with(spec *guestpb.Room) *Room {
	changed := *r
	changed.spec = spec
	return &changed
}

// make makes a room where there is none, or a dead one.
func (k *Keeper) make(d *door, spec *guestpb.Room, token []byte) (*Room, error) {
	const op = "make room"
	f, err := refused().Compile()
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, spec.User, err)
	}
	r := &Room{
		spec: spec, layer: filepath.Join(k.opts.Data, spec.User), files: filepath.Join(k.opts.Run, spec.User), group: group(filepath.Join(k.opts.Cgroup, spec.User)),
		lines: newCommandLines(), slot: d.slot, filter: f, made: time.Now(), starts: make(chan struct{}, maxStarts),
	}
	if err := errors.Join(r.group.kill(), network.Disconnect(r.slot)); err != nil {
		return nil, fault.Newf(fault.Unavailable, op, spec.User, "clear what is left of the last one: %w", err)
	}
	if d.room.Load() == nil {
		// Jobs end with the boot, not with the room: their logs can be read afterwards.
		if err := k.discard(filepath.Join(r.layer, "jobs")); err != nil {
			return nil, fault.New(fault.Execution, op, spec.User, err)
		}
	}
	if r.anew, err = k.outgrown(r.layer); err != nil {
		return nil, fault.New(fault.Execution, op, spec.User, err).Advise("If the data disk is full or damaged, reset it.")
	}
	if err := r.folders(k); err != nil {
		return nil, err
	}
	if err := k.inhabit(r, token); err != nil {
		r.forget()
		return nil, errors.Join(err, r.group.kill())
	}
	return r, nil
}

// inhabit gives a room that has its folders its limits, its way to the bridge and its first process.
func (k *Keeper) inhabit(r *Room, token []byte) error {
	const op = "make room"
	if err := r.group.make(); err != nil {
		return fault.New(fault.Unavailable, op, r.spec.User, err)
	}
	if err := errors.Join(r.limit(r.spec.Limits), r.openEvents()); err != nil {
		return fault.New(fault.Execution, op, r.spec.User, err)
	}
	if err := r.openOutlet(k.opts, token); err != nil {
		return err
	}
	f, err := begin(k.opts)
	if err != nil {
		return err
	}
	return r.open(f, k.opts)
}

// forget ends what was open for the room alone. The disk could not be written out
// while somebody holds a folder that is deleted.
func (r *Room) forget() {
	r.outlet.close()
	_ = r.disk.Close()
}

// Get returns a room in which commands can run: one whose first process has
// ended is made anew.
func (k *Keeper) Get(ctx context.Context, user string) (*Room, error) {
	d, err := k.enter(ctx, user, false)
	if err != nil {
		return nil, err
	}
	defer d.leave()
	r := d.room.Load()
	if r == nil {
		return nil, missing(user)
	}
	if r.dead() {
		if _, err := k.ensure(d, r.spec, r.outlet.token); err != nil {
			return nil, err
		}
	}
	return d.room.Load(), nil
}

// Remove ends a room and forgets it; with layer, its files go too. That they are
// thrown away and nothing else is all that a reset is.
func (k *Keeper) Remove(ctx context.Context, user string, layer bool) error {
	const op = "end room"
	d, err := k.enter(ctx, user, true) // the layer may be there without a room in this boot
	if err != nil {
		return err
	}
	defer d.leave()
	if r := d.room.Load(); r != nil {
		r.init.Release() // all that is in its namespaces dies with it
		if !r.dead() {
			return fault.Newf(fault.Execution, op, user, "its first process has not ended").Advise("Try again; a process may be waiting for a share.")
		}
		r.forget()
	}
	if err := errors.Join(group(filepath.Join(k.opts.Cgroup, user)).kill(), network.Disconnect(d.slot)); err != nil {
		return fault.New(fault.Execution, op, user, err).Advise("Try again; a process may be waiting for a share.")
	}
	if layer {
		if err := k.discard(filepath.Join(k.opts.Data, user)); err != nil {
			return fault.New(fault.Execution, op, user, err)
		}
	}
	_ = os.RemoveAll(filepath.Join(k.opts.Run, user))
	d.gone = true
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.doors, user)
	delete(k.slots, d.slot)
	return nil
}

// rooms are those that are there, by user; or one of them. It waits for none that is being made.
func (k *Keeper) rooms(user string) ([]*Room, error) {
	k.mu.Lock()
	var list []*Room
	for u, d := range k.doors {
		if r := d.room.Load(); (user == "" || u == user) && r != nil && !r.dead() {
			list = append(list, r)
		}
	}
	k.mu.Unlock()
	if user != "" && len(list) == 0 {
		return nil, missing(user)
	}
	slices.SortFunc(list, func(a, b *Room) int { return strings.Compare(a.User(), b.User()) })
	return list, nil
}

// door is where those wait who want something of the same room.
type door struct {
	turn chan struct{} // a lock that can be waited for with a context
	slot int
	gone bool // the room was forgotten
	// room is the last that was made; nil before the first. Who has the turn changes it, and
	// who only looks waits for no turn: to make a room may take long.
	room atomic.Pointer[Room]
}

// enter waits for a user's turn. With add the user may be a new one.
func (k *Keeper) enter(ctx context.Context, user string, add bool) (*door, error) {
	for {
		d, err := k.door(user, add)
		if err != nil {
			return nil, err
		}
		select {
		case d.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !d.gone {
			return d, nil
		}
		d.leave() // for the next who waited
	}
}

// door finds a user's door, or with add makes one.
func (k *Keeper) door(user string, add bool) (*door, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.doors[user]; d != nil {
		return d, nil
	}
	if !add {
		return nil, missing(user)
	}
	if len(k.slots) == network.MaxRooms {
		return nil, fault.Newf(fault.Rejected, "make room", user, "there are %d rooms", network.MaxRooms).Advise("Delete an agent that is not needed any more.")
	}
	for k.slots[k.next] {
		k.pass()
	}
	d := &door{turn: make(chan struct{}, 1), slot: k.next}
	k.doors[user], k.slots[k.next] = d, true
	k.pass()
	return d, nil
}

// pass goes on to the next slot.
func (k *Keeper) pass() { k.next = (k.next + 1) % network.MaxRooms }

func (d *door) leave() { <-d.turn }
