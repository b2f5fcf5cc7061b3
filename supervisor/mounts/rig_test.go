package mounts

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/prompts"
)

// rig is a home with two agents, a folder of a person, and a guest that notes what is mounted.
type rig struct {
	*Mounts
	t       *testing.T
	rules   Rules
	dir     config.Home
	home    *hosttest.Home
	backend *hosttest.Backend
	alice   agents.Agent
	bob     agents.Agent
	app     string // a folder

	mu      sync.Mutex
	mounted map[string]*fakeMount // by user and name
	busy    error                 // why Unmount fails without force
	refuse  error                 // why Mount fails
	changes []guest.MountChange
	late    []guest.MountChange // made while a mount ends
	forgot  []string
	during  func() // called when a mount has ended that is being unmounted
	events  []events.Event
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, rules: person(t), backend: &hosttest.Backend{}, mounted: map[string]*fakeMount{}}
	r.dir, r.app = r.rules.Home, r.rules.Person+"/src/app"
	r.open()
	t.Cleanup(func() { r.close() })
	r.alice, r.bob = r.create("alice"), r.create("bob")
	return r
}

func (r *rig) create(name string) agents.Agent {
	r.t.Helper()
	a, err := r.Agents.Create(context.Background(), agents.New{Name: name}, "test")
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *rig) open() {
	r.t.Helper()
	r.home = hosttest.OpenHome(r.t, r.dir, r.backend, agents.Options{Record: r, Made: func(ctx context.Context, l *machine.Lease, a agents.Agent) {
		r.Attach(ctx, l, a)
	}, Lost: func(a config.AgentID) bool { return r.Lost(a) }})
	kept, err := history.Open(string(r.dir.History()), history.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.Mounts, err = Open(context.Background(), Options{
		History: kept,
		Rules:   r.rules, DB: r.home.DB, Agents: r.home.Agents, Record: r, Log: r.home.Agents.Log,
		Prompts: prompts.New(prompts.Options{Record: r}),
		Guest:   func(machine.Guest) (Guest, bool) { return fakeGuest{r}, true },
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) close() {
	r.t.Helper()
	r.Prompts.Close()
	r.Mounts.Close()
	if err := r.home.Close(); err != nil {
		r.t.Error(err)
	}
}

// start starts the guest and makes an agent's room.
func (r *rig) start(a agents.Agent) {
	r.t.Helper()
	lease, _, err := r.Agents.Room(string(a.ID)).Enter(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	lease.Release()
}

func (r *rig) mount(a agents.Agent, n Mount) Mount {
	r.t.Helper()
	if n.Folder == "" {
		n.Folder = r.app
	}
	m, err := r.Mount(context.Background(), string(a.ID), n, "me")
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

// states lists the mounts as "agent/name: state".
func (r *rig) states() string {
	r.t.Helper()
	list, err := r.List("")
	if err != nil {
		r.t.Fatal(err)
	}
	var texts []string
	for _, m := range list {
		texts = append(texts, fmt.Sprintf("%s/%s: %s", r.NameOf(m), m.Name, m.State))
	}
	return strings.Join(texts, ", ")
}

func (r *rig) want(states string) {
	r.t.Helper()
	if got := r.states(); got != states {
		r.t.Errorf("the mounts are %q, want %q", got, states)
	}
}

// Note implements events.Recorder.
func (r *rig) Note(e events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// told lists the events about mounts with their causes.
func (r *rig) told() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var texts []string
	for _, e := range r.events {
		if strings.HasPrefix(string(e.Kind), "mount.") || strings.HasPrefix(string(e.Kind), "review.") {
			texts = append(texts, fmt.Sprintf("%s of %s by %s", e.Kind, e.Fields["mount"], e.Cause))
		}
	}
	return strings.Join(texts, "; ")
}

// fakeMount is a mount in a guest that only keeps the stream.
type fakeMount struct {
	rig   *rig
	mount guest.RoomMount
	end   context.CancelFunc
	done  chan struct{}
}

// fakeGuest implements Guest for one rig.
type fakeGuest struct{ *rig }

func (g fakeGuest) Mount(ctx context.Context, user config.LinuxUser, m guest.RoomMount, serve func(context.Context, io.ReadWriteCloser) error) (Attached, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refuse != nil {
		return nil, g.refuse
	}
	ours, _ := net.Pipe()
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	f := &fakeMount{g.rig, m, end, make(chan struct{})}
	go func() {
		defer close(f.done)
		_ = serve(serving, ours)
	}()
	g.mounted[string(user)+"/"+string(m.Name)] = f
	return f, nil
}

func (g fakeGuest) MountChanges(context.Context, config.LinuxUser, config.MountName) iter.Seq2[guest.MountChange, error] {
	return func(yield func(guest.MountChange, error) bool) {
		g.mu.Lock()
		list := g.changes
		g.mu.Unlock()
		for _, c := range list {
			if !yield(c, nil) {
				return
			}
		}
	}
}

func (g fakeGuest) ReadMountChange(_ context.Context, _ config.LinuxUser, _ config.MountName, path string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("the agent's " + path + "\n")), nil
}

func (g fakeGuest) ForgetMount(_ context.Context, user config.LinuxUser, name config.MountName) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forgot = append(g.forgot, string(user)+"/"+string(name))
	return nil
}

func (f *fakeMount) Done() <-chan struct{} { return f.done }
func (f *fakeMount) Close()                { f.end(); <-f.done }

func (f *fakeMount) Unmount(_ context.Context, force bool) error {
	f.rig.mu.Lock()
	busy := f.rig.busy
	f.rig.changes = append(f.rig.changes, f.rig.late...)
	f.rig.mu.Unlock()
	if busy != nil && !force {
		return busy
	}
	f.Close()
	if f.rig.during != nil {
		f.rig.during()
	}
	return nil
}

// live returns how many mounts the guest has.
func (r *rig) live() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.mounted {
		select {
		case <-f.done:
		default:
			n++
		}
	}
	return n
}

// set changes what the guest does.
func (r *rig) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// changed is a new file of the agent.
func changed(path string) guest.MountChange {
	return guest.MountChange{Path: path, Kind: guest.ChangedFile, Mode: 0o644, Size: uint64(len("the agent's " + path + "\n"))}
}

func (r *rig) write(path, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.app, path), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

var errBusy = fault.Newf(fault.Rejected, "unmount", "app", "in use by vi (7)")

func mtime(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}
