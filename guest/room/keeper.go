//go:build linux

package room

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/relay"
)

// Defaults of a room's limits.
const (
	defaultWeight = 100 // the kernel's own
	defaultPids   = 512 // a build of many jobs; a fork bomb ends there
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
	// Late is closed when the modules are loaded that rooms' networks need.
	Late <-chan struct{}
}

// Keeper makes rooms and knows them.
type Keeper struct {
	opts    Options
	prepare func() error // once

	mu    sync.Mutex
	doors map[string]*door // by user
	slots map[int]bool     // taken
}

// door is where those wait who want something of the same room.
type door struct {
	turn chan struct{} // a lock that can be waited for with a context
	room *Room         // the last that was made; nil before the first
	slot int
	gone bool // the room was forgotten
}

// NewKeeper returns a keeper of no rooms.
func NewKeeper(o Options) *Keeper {
	k := &Keeper{opts: o, doors: map[string]*door{}, slots: map[int]bool{}}
	k.prepare = sync.OnceValue(k.foundations)
	return k
}

// foundations are what all rooms need, made for the first.
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
	slot := 0
	for k.slots[slot] {
		slot++
	}
	if slot == maxSlots {
		return nil, fault.New(fault.Rejected, "make room", user, fmt.Errorf("there are %d rooms", maxSlots)).Advise("Delete an agent that is not needed any more.")
	}
	d := &door{turn: make(chan struct{}, 1), slot: slot}
	k.doors[user], k.slots[slot] = d, true
	return d, nil
}

func (d *door) leave() { <-d.turn }

func missing(user string) error {
	return fault.New(fault.NotFound, "find room", user, errors.New("there is no such room in this boot")).Advise("Make it first.")
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
	old := d.room
	if old == nil || old.dead() {
		if old != nil {
			old.forget()
		}
		if err := k.prepare(); err != nil {
			return nil, fault.New(fault.Unavailable, op, spec.User, err).Advise("Boot the guest with a base disk and the kernel of its pack.")
		}
		r, err := k.build(d, spec, token)
		if err != nil {
			return nil, err
		}
		d.room = r
		return &guestpb.EnsureResponse{Made: true, Anew: r.anew, Warnings: r.lacks}, nil
	}
	if old.spec.Uid != spec.Uid || old.spec.Home != spec.Home || old.spec.Hostname != spec.Hostname {
		return nil, fault.New(fault.Rejected, op, spec.User, errors.New("it is there with another user id, home or host name")).
			Advise("Remove it first; its layer can stay.")
	}
	if old.unsettled || old.spec.Network != spec.Network || old.spec.HostServices != spec.HostServices {
		old = old.with(old.spec)
		old.unsettled = true // until all that is asked for is done, whatever fails
		d.room = old
		if err := old.network(spec, k.opts); err != nil {
			return nil, fault.New(fault.Execution, op, spec.User, err).Advise("Set it again; if that fails too: osaurus-sandbox restart")
		}
	}
	if !proto.Equal(old.spec.Limits, spec.Limits) {
		if err := errors.Join(old.limit(spec.Limits), old.fit(spec.Limits.MemoryBytes)); err != nil {
			return nil, fault.New(fault.Execution, op, spec.User, err)
		}
	}
	d.room = old.with(spec)
	d.room.unsettled = false
	return &guestpb.EnsureResponse{Warnings: old.lacks}, d.room.tell(token)
}

// with is the same room with another spec: readers have the old one.
func (r *Room) with(spec *guestpb.Room) *Room {
	changed := *r
	changed.spec = spec
	return &changed
}

// build makes a room where there is none, or a dead one.
func (k *Keeper) build(d *door, spec *guestpb.Room, token []byte) (*Room, error) {
	const op = "make room"
	f, err := refused().Compile()
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, spec.User, err)
	}
	r := &Room{
		spec: spec, layer: filepath.Join(k.opts.Data, spec.User), files: filepath.Join(k.opts.Run, spec.User), group: group(filepath.Join(k.opts.Cgroup, spec.User)),
		slot: d.slot, filter: f, made: time.Now(), starts: make(chan struct{}, maxStarts),
	}
	if err := errors.Join(r.group.kill(), disconnect(r.slot)); err != nil {
		return nil, fault.New(fault.Unavailable, op, spec.User, fmt.Errorf("clear what is left of the last one: %w", err))
	}
	if d.room == nil {
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
	if err := r.group.make(); err != nil {
		return nil, fault.New(fault.Unavailable, op, spec.User, err)
	}
	if err := errors.Join(r.limit(spec.Limits), r.openEvents()); err != nil {
		return nil, fault.New(fault.Execution, op, spec.User, err)
	}
	err = r.openOutlet(k.opts, token)
	if err == nil {
		err = r.start(k.opts)
	}
	if err != nil {
		r.forget()
		return nil, errors.Join(err, r.group.kill())
	}
	return r, nil
}

// forget ends what was open for the room alone. The disk could not be written out
// while somebody holds a folder that is deleted.
func (r *Room) forget() {
	r.outlet.close()
	_ = r.disk.Close()
}

// openEvents opens what each command looks at.
func (r *Room) openEvents() (err error) {
	if r.memory, err = os.Open(filepath.Join(string(r.group), "memory.events")); err != nil {
		return err
	}
	r.pids, err = os.Open(filepath.Join(string(r.group), "pids.events"))
	return err
}

// limit sets the limits of a room.
func (r *Room) limit(l *guestpb.Limits) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(r.disk.Fd()), &st); err != nil {
		return err
	}
	err := r.group.limit(l, st.Dev)
	if r.quota {
		err = errors.Join(err, setLimits(r.disk, r.spec.Uid, l.DiskBytes, l.DiskFiles))
	}
	return err
}

// fit makes the room's file systems in memory as large as fits its limit. One that
// holds more stays as it is.
func (r *Room) fit(memory uint64) error {
	return within(int(r.pidfd.Fd()), unix.CLONE_NEWNS, func() error {
		for path, size := range map[string]string{"/dev/shm": shmSize(memory), "/run": runSize(memory)} {
			f, err := unix.Fspick(unix.AT_FDCWD, path, unix.FSPICK_CLOEXEC|unix.FSPICK_SYMLINK_NOFOLLOW)
			if err != nil {
				return fmt.Errorf("size of %s: %w", path, err)
			}
			key, value, _ := strings.Cut(size, "=")
			err = unix.FsconfigSetString(f, key, value)
			if err == nil {
				err = unix.FsconfigReconfigure(f)
			}
			_ = unix.Close(f)
			if err != nil && err != unix.EINVAL {
				return fmt.Errorf("size of %s: %w", path, err)
			}
		}
		return nil
	})
}

// defaults fills in what a spec leaves to the guest.
func (k *Keeper) defaults(l *guestpb.Limits) *guestpb.Limits {
	var st unix.Statfs_t
	_ = unix.Statfs(k.opts.Data, &st) // without it there are no blocks
	l = proto.CloneOf(l)
	if l == nil {
		l = &guestpb.Limits{}
	}
	l.CpuWeight = cmp.Or(l.CpuWeight, defaultWeight)
	l.Pids = cmp.Or(l.Pids, defaultPids)
	l.MemoryBytes = cmp.Or(l.MemoryBytes, totalMemory()/2)
	// Half, so that one agent that fills its own leaves another some.
	l.DiskBytes = cmp.Or(l.DiskBytes, st.Blocks*uint64(st.Bsize)/2)
	l.DiskFiles = cmp.Or(l.DiskFiles, st.Files/2)
	return l
}

// Get returns a room in which commands can run: one whose first process has
// ended is made anew.
func (k *Keeper) Get(ctx context.Context, user string) (*Room, error) {
	d, err := k.enter(ctx, user, false)
	if err != nil {
		return nil, err
	}
	defer d.leave()
	if d.room == nil {
		return nil, missing(user)
	}
	if d.room.dead() {
		if _, err := k.ensure(d, d.room.spec, d.room.outlet.token); err != nil {
			return nil, err
		}
	}
	return d.room, nil
}

// SetLimits changes what a room may use, while it is used.
func (k *Keeper) SetLimits(ctx context.Context, user string, l *guestpb.Limits) error {
	d, err := k.enter(ctx, user, false)
	if err != nil {
		return err
	}
	defer d.leave()
	if d.room == nil {
		return missing(user)
	}
	spec := proto.CloneOf(d.room.spec)
	spec.Limits = l
	_, err = k.ensure(d, spec, d.room.outlet.token)
	return err
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
	if r := d.room; r != nil {
		r.init.Kill() // all that is in its namespaces dies with it
		r.init.Release()
		r.forget()
	}
	if err := errors.Join(group(filepath.Join(k.opts.Cgroup, user)).kill(), disconnect(d.slot)); err != nil {
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

// rooms are those that are there, by user; or one of them.
func (k *Keeper) rooms(ctx context.Context, user string) ([]*Room, error) {
	k.mu.Lock()
	var users []string
	for u := range k.doors {
		if user == "" || u == user {
			users = append(users, u)
		}
	}
	k.mu.Unlock()
	slices.Sort(users)
	var list []*Room
	for _, u := range users {
		d, err := k.enter(ctx, u, false)
		if err != nil {
			continue // it was removed meanwhile
		}
		if d.room != nil && !d.room.dead() {
			list = append(list, d.room)
		}
		d.leave()
	}
	if user != "" && len(list) == 0 {
		return nil, missing(user)
	}
	return list, ctx.Err()
}

// Usage is what rooms use.
func (k *Keeper) Usage(ctx context.Context, user string) ([]*guestpb.RoomUsage, error) {
	list, err := k.rooms(ctx, user)
	var out []*guestpb.RoomUsage
	for _, r := range list {
		out = append(out, r.usage())
	}
	return out, err
}
