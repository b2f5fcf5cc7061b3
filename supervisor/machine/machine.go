// Package machine runs one virtual machine of a home folder. The machine is always in a known state, whatever fails or is requested at once.
package machine

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/homelock"
	"osaurus-sandbox/vm"
)

// Options configure a Machine.
type Options struct {
	Home   config.Home
	Driver vm.Driver
	// Lock, if not nil, is the lock of the home, which the caller releases
	// after Close. Without it, New takes the home.
	Lock *homelock.Lock
	Arch vm.Arch // of the guest; zero means this host's
	// Folders says which folders of the workspace belong to whom, also as that
	// changes; nil is nobody.
	Folders *vm.Subtrees
	// Bridge answers requests from programs in the guest; nil is nobody.
	Bridge boot.Bridge
	// Record records the events; it may be nil.
	Record Recorder
	Log    *slog.Logger // of what has no event; nil discards
	// Backend, if not nil, replaces the one that works on Home with Driver.
	Backend Backend
}

// Machine runs a virtual machine. Its methods may be called by many goroutines
// at once. Commands return when they are done; if the caller stops waiting,
// the work goes on, with time limits of its own. Errors are faults.
type Machine struct {
	home    config.Home
	backend Backend
	log     *slog.Logger
	record  Recorder     // or nil
	release func() error // gives the home back, if that is ours to do

	life context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup

	reading sync.Mutex // the settings: they come out of the file into memory one after the other

	mu       sync.Mutex      // held for moments only, never across I/O
	status   Status          // but for what Status adds
	changed  notify.Notifier // rung with every revision of the status
	settings config.Settings
	op       *operation // under way, or nil
	tracker  *progress.Tracker
	guest    Guest // what runs, or nil
	last     Guest // what ran last, or nil
	busy     int   // commands of callers
	lastUsed time.Time
	failures failures
	closing  bool
	closed   bool
}

// New takes the home and finds out its state. It starts nothing. It fails with
// Rejected if another program has the home, and with InvalidArgs if the
// settings are invalid. A host that cannot run machines is a state, not an
// error.
func New(ctx context.Context, o Options) (*Machine, error) {
	if o.Lock != nil {
		return newMachine(ctx, o, o.Lock)
	}
	lock, err := homelock.Take(ctx, o.Home)
	if err != nil {
		return nil, err
	}
	s, err := newMachine(ctx, o, lock)
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	s.release = lock.Release
	return s, nil
}

func newMachine(ctx context.Context, o Options, lock *homelock.Lock) (*Machine, error) {
	file, err := config.Load(o.Home.SettingsFile())
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Backend == nil {
		if o.Arch == "" {
			o.Arch = vm.HostArch()
		}
		o.Backend = local{boot.New(o.Home, o.Driver, o.Arch, o.Folders, o.Bridge)}
	}
	s := &Machine{
		home: o.Home, backend: o.Backend, log: o.Log, record: o.Record, settings: file.Settings(),
	}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.work.Go(s.watchHost)

	accelerator, err := o.Backend.Check(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Accelerator = accelerator
	if before, ok := lock.Before(); ok {
		s.note(Event{Kind: OwnerGone, Cause: causeBegin, Detail: before.String()})
	}
	switch {
	case err != nil:
		s.set(SetupRequired, causeBegin, err)
	case o.Backend.Provisioned():
		s.set(Stopped, causeBegin, nil)
	default:
		s.set(NotProvisioned, causeBegin, nil)
	}
	return s, nil
}

// Provision makes everything that a boot needs, verifies what can be verified,
// and starts the guest. It does nothing while the guest runs.
func (s *Machine) Provision(ctx context.Context, by Cause) error { return s.do(ctx, Provision, by) }

// Start starts the guest and provisions what is missing. Concurrent callers
// share one start and its result.
func (s *Machine) Start(ctx context.Context, by Cause) error { return s.do(ctx, Start, by) }

// AutoStart starts the guest in the background if the settings say so and it
// is provisioned.
func (s *Machine) AutoStart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settings.AutoStart && s.status.State == Stopped && s.op == nil && !s.closing {
		s.begin(Start, CauseAutoStart)
	}
}

// Stop ends what runs in the guest and powers it off, by force if it does not
// obey. It interrupts a start. The next command starts the guest again.
func (s *Machine) Stop(ctx context.Context, by Cause) error { return s.do(ctx, Stop, by) }

// Restart is Stop and Start.
func (s *Machine) Restart(ctx context.Context, by Cause) error { return s.do(ctx, Restart, by) }

// Reset discards the data disk and keeps the workspace. A running guest is
// stopped before and started after.
func (s *Machine) Reset(ctx context.Context, by Cause) error { return s.do(ctx, Reset, by) }

// Remove stops the guest and removes its disk and boot files. The workspace,
// packs and settings are kept. Nothing is started automatically until Start or
// Provision is called.
func (s *Machine) Remove(ctx context.Context, by Cause) error { return s.do(ctx, Remove, by) }

// Exec starts a command as the guest's root, and before it the guest if
// necessary. See engine.Room.
func (s *Machine) Exec(ctx context.Context, cmd engine.Command) (engine.Process, error) {
	l, err := s.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Release()
	return l.Exec(ctx, engine.Root, cmd)
}

// Info asks the guest for its state now; Status has what it reported last. It
// starts no guest.
func (s *Machine) Info(ctx context.Context) (guest.Info, error) {
	s.mu.Lock()
	g, state := s.guest, s.status.State
	s.mu.Unlock()
	if g == nil || state != Running {
		return guest.Info{}, fault.Newf(fault.Unavailable, "ask guest for its state", "", "the sandbox is %s", state).Advise(adviseStart)
	}
	return g.Info(ctx)
}

// Status returns the present status, from memory.
func (s *Machine) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshot()
}

// Next waits until the status has another revision than the given one and
// returns it. It fails with Unavailable after Close.
func (s *Machine) Next(ctx context.Context, revision uint64) (Status, error) {
	for {
		s.mu.Lock()
		status, changed, closed := s.snapshot(), s.changed.Next(), s.closed
		s.mu.Unlock()
		if status.Revision != revision {
			return status, nil
		}
		if closed {
			return status, errClosed("watch status")
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return status, fault.Wrap("watch status", "", ctx.Err())
		}
	}
}

// Home returns the home folder.
func (s *Machine) Home() config.Home { return s.home }

// Settings returns the present settings.
func (s *Machine) Settings() config.Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings
}

// Set changes settings, all or none, and writes them to the file. It returns
// the keys whose value changed, in order; config.EffectOf says when a change
// takes effect.
func (s *Machine) Set(texts map[string]string, by Cause) ([]string, error) {
	var before, after config.Settings
	err := config.Edit(s.home, func(f *config.File) error {
		before = f.Settings()
		for _, key := range slices.Sorted(maps.Keys(texts)) {
			if err := f.Set(key, texts[key]); err != nil {
				return err
			}
		}
		after = f.Settings()
		return nil
	})
	if err != nil {
		return nil, err
	}
	if _, err := s.reload(); err != nil { // not what was written here: others may have been quicker
		return nil, err
	}
	changed := before.Differences(after)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touch()
	for _, key := range changed {
		s.note(Event{Kind: SettingChanged, Cause: by, Detail: key})
	}
	return changed, nil
}
