//go:build linux

package room

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/layers"
	"osaurus-sandbox/guest/network"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/relay"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/queue"
)

// Options configure a Manager.
type Options struct {
	Processes *process.Manager
	Program   string // path of this program, which runs as the first process of rooms
	Base      string // the read-only base
	// BaseName returns the name of the base, or "". It is called when a room is made.
	BaseName func() string
	Data     string // folder of layers
	Run      string // folder of the guest in memory
	// Resolvers is the resolv.conf that rooms see. The guest writes to it without replacing it.
	Resolvers string
	Shim      string // path of the bridge client
	// Relay returns the relay to the bridge, or nil if the host serves none. It is called when a
	// room is made.
	Relay  func() *relay.Relay
	Cgroup string // parent group of all rooms, directly below the root group
	// ModulesLoaded is closed when the kernel modules for room networks are loaded.
	ModulesLoaded <-chan struct{}
}

// Manager creates, changes and removes rooms.
type Manager struct {
	opts    Options
	layers  *layers.Store
	prepare func() error         // once
	turns   queue.Queues[string] // to change a user's room

	mu     sync.Mutex
	byUser map[string]*Room // also those that have ended
}

// NewManager returns a manager without rooms.
func NewManager(o Options) *Manager {
	m := &Manager{opts: o, byUser: map[string]*Room{}}
	m.layers = &layers.Store{Data: o.Data, Base: o.Base, Run: o.Run, Discard: m.discard, Own: setProject}
	m.prepare = sync.OnceValue(m.setUp)
	return m
}

// Prepare sets up what all rooms share. Errors are reported when a room is made.
func (m *Manager) Prepare() { _ = m.prepare() }

// setUp creates the folders and the cgroup that all rooms share.
func (m *Manager) setUp() error {
	if _, err := os.Stat(m.opts.Base); err != nil {
		return fmt.Errorf("find the base: %w", err)
	}
	if b, err := os.ReadFile(namespaceLimit); err == nil && string(b) != "0\n" {
		return fmt.Errorf("%s is %q: a room could make user namespaces", namespaceLimit, b)
	}
	return errors.Join(
		prepareGroups(group(m.opts.Cgroup)),
		os.MkdirAll(m.opts.Data, 0o700), os.Chmod(m.opts.Data, 0o700), // agents get here only through their mounts
		os.MkdirAll(m.opts.Run, 0o700), os.MkdirAll(point, 0o700), m.sweep(), m.layers.Sweep())
}

// namespaceLimit must be 0, so that rooms cannot create user namespaces.
const namespaceLimit = "/proc/sys/user/max_user_namespaces"

func missing(user string) error {
	return fault.Newf(fault.NotFound, "find room", user, "no such room in this boot").Advise("Create it first.")
}

// Program returns the path of the guest program, outside of rooms.
func (m *Manager) Program() string { return m.opts.Program }

// Ensure creates a room, or changes it to match the spec, and sets its token.
func (m *Manager) Ensure(ctx context.Context, r *guestpb.EnsureRequest) (*guestpb.EnsureResponse, error) {
	if err := protocol.CheckUser(r.Room.GetUser()); err != nil {
		return nil, err
	}
	give, err := m.turns.Take(ctx, r.Room.User, nil)
	if err != nil {
		return nil, err
	}
	defer give()
	return m.ensure(r.Room, r.Token)
}

// ensure is Ensure for a caller who has the turn.
func (m *Manager) ensure(spec *guestpb.Room, token []byte) (*guestpb.EnsureResponse, error) {
	const op = "make room"
	spec = proto.CloneOf(spec)
	spec.Limits = m.defaults(spec.Limits)
	old := m.of(spec.User)
	if old == nil || old.dead() {
		if old != nil {
			old.forget()
		}
		if err := m.prepare(); err != nil {
			return nil, fault.New(fault.Unavailable, op, spec.User, err).Advise("Boot the guest with a base disk and the kernel of its pack.")
		}
		r, err := m.make(old == nil, spec, token)
		if err != nil {
			return nil, err
		}
		m.set(spec.User, r)
		return &guestpb.EnsureResponse{Made: true, Anew: r.anew, Warnings: r.lacks}, nil
	}
	if old.spec.Uid != spec.Uid || old.spec.Home != spec.Home || old.spec.Hostname != spec.Hostname {
		return nil, fault.Newf(fault.Rejected, op, spec.User, "the room exists with another user id, home or host name").
			Advise("Remove it first; its layer can stay.")
	}
	if old.unsettled || !bytes.Equal(old.spec.Address, spec.Address) {
		old = old.with(old.spec)
		old.unsettled = true // until every step has succeeded
		m.set(spec.User, old)
		if err := old.network(spec, m.opts); err != nil {
			return nil, fault.New(fault.Execution, op, spec.User, err).Advise("Try again; if it still fails: osaurus-sandbox restart")
		}
	}
	if !proto.Equal(old.spec.Limits, spec.Limits) {
		if err := errors.Join(old.limit(spec.Limits), old.fit(spec.Limits.MemoryBytes)); err != nil {
			return nil, fault.New(fault.Execution, op, spec.User, err)
		}
	}
	settled := old.with(spec)
	settled.unsettled = false
	if !settled.trusted || !proto.Equal(old.spec.Trust, spec.Trust) {
		settled.setTrust()
	}
	m.set(spec.User, settled)
	return &guestpb.EnsureResponse{Warnings: settled.lacks}, settled.setToken(token)
}

// with returns a copy of the room with another spec. Readers keep the old one.
func (r *Room) with(spec *guestpb.Room) *Room {
	changed := *r
	changed.spec = spec
	return &changed
}

// make creates a room, the first of its user in this boot or in place of one that has ended.
func (m *Manager) make(first bool, spec *guestpb.Room, token []byte) (*Room, error) {
	const op = "make room"
	f, err := refused().Compile()
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, spec.User, err)
	}
	r := &Room{
		spec: spec, layer: filepath.Join(m.opts.Data, spec.User), files: filepath.Join(m.opts.Run, spec.User), group: group(filepath.Join(m.opts.Cgroup, spec.User)),
		lines: newCommandLines(), filter: f, made: time.Now(), starts: make(chan struct{}, maxStarts),
		plugins: &pluginNetworks{modulesLoaded: m.opts.ModulesLoaded, made: map[netip.Addr]*os.File{}},
	}
	if err := errors.Join(r.group.kill(), network.Disconnect(network.RoomCable(spec.Uid))); err != nil {
		return nil, fault.Newf(fault.Unavailable, op, spec.User, "remove the previous room's group: %w", err)
	}
	if first {
		// Keep logs of jobs from this boot: they can be read after the room has ended. Keep /tmp when the
		// room ends for a snapshot.
		if err := errors.Join(m.discard(filepath.Join(r.layer, "jobs")), m.discard(filepath.Join(r.layer, "tmp"))); err != nil {
			return nil, fault.New(fault.Execution, op, spec.User, err)
		}
	}
	if r.anew, err = m.discardOutdated(r); err != nil {
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

// start sets up a room's limits, its bridge files and its first process.
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
	line, err := r.begin(m.opts)
	if err != nil {
		return fault.Wrap("start the first process of a room", r.spec.User, err)
	}
	return r.open(line, m.opts)
}

// forget closes the room's descriptors. An open deleted folder would keep the disk from being
// remounted read-only.
func (r *Room) forget() {
	r.bridgeFiles.close()
	_ = r.disk.Close()
	_ = r.plugins.close()
}

// Get returns a user's room. It rebuilds the room if its first process has ended.
func (m *Manager) Get(ctx context.Context, user string) (*Room, error) {
	give, err := m.turns.Take(ctx, user, nil)
	if err != nil {
		return nil, err
	}
	defer give()
	r := m.of(user)
	if r == nil {
		return nil, missing(user)
	}
	if r.dead() {
		if _, err := m.ensure(r.spec, r.bridgeFiles.token); err != nil {
			return nil, err
		}
	}
	return m.of(user), nil
}

// Reset ends a room and discards its files.
func (s Service) Reset(ctx context.Context, r *guestpb.ResetRequest) (*guestpb.ResetResponse, error) {
	return &guestpb.ResetResponse{}, s.remove(ctx, r.User, true)
}

// Remove ends a room. With layer set, it also discards the room's files and unreviewed changes.
func (s Service) Remove(ctx context.Context, r *guestpb.RemoveRequest) (*guestpb.RemoveResponse, error) {
	err := s.remove(ctx, r.User, r.Layer)
	if err == nil && r.Layer {
		err = s.DiscardReviews(r.User, "")
	}
	return &guestpb.RemoveResponse{}, err
}

func (s Service) remove(ctx context.Context, user string, layer bool) error {
	const op = "end room"
	if err := protocol.CheckUser(user); err != nil {
		return err
	}
	s.LetGo(user, true)
	m := s.Manager
	give, err := m.turns.Take(ctx, user, nil)
	if err != nil {
		return err
	}
	defer give()
	if r := m.of(user); r != nil { // or only a layer
		r.init.Release() // kills everything in its namespaces
		if !r.dead() {
			return fault.Newf(fault.Execution, op, user, "its first process has not ended").Advise("Try again; a process may be waiting for a share.")
		}
		r.forget()
		if err := network.Disconnect(network.RoomCable(r.spec.Uid)); err != nil {
			return fault.New(fault.Execution, op, user, err)
		}
	}
	if err := group(filepath.Join(m.opts.Cgroup, user)).kill(); err != nil {
		return fault.New(fault.Execution, op, user, err).Advise("Try again; a process may be waiting for a share.")
	}
	if layer {
		if err := errors.Join(m.discard(filepath.Join(m.opts.Data, user)), m.layers.Sweep()); err != nil {
			return fault.New(fault.Execution, op, user, err)
		}
	}
	_ = os.RemoveAll(filepath.Join(m.opts.Run, user))
	m.set(user, nil)
	return nil
}

// of returns a user's room in this boot, which may have ended, or nil.
func (m *Manager) of(user string) *Room {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byUser[user]
}

// set replaces a user's room. The caller has the turn. Others do not need it to see the room, because making one can
// take long.
func (m *Manager) set(user string, r *Room) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byUser[user] = r; r == nil {
		delete(m.byUser, user)
	}
}

// rooms returns the room of a user, or all rooms sorted by user. It does not wait for rooms that
// are being made.
func (m *Manager) rooms(user string) ([]*Room, error) {
	m.mu.Lock()
	var list []*Room
	for u, r := range m.byUser {
		if (user == "" || u == user) && !r.dead() {
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
