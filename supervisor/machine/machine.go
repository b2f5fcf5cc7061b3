// Package machine runs one virtual machine of a home folder. The machine is always in a known state, whatever fails or is requested at once.
package machine

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/vm"
)

// Options configure a Machine.
type Options struct {
	Home   config.Home
	Driver vm.Driver
	Arch   vm.Arch // of the guest; zero means this host's
	// Folders are the owners of folders in the workspace, which may change while the
	// guest runs; nil is none.
	Folders *vm.Subtrees
	// Bridge answers requests from programs in the guest; may be nil.
	Bridge *bridge.Server
	// Network configures the gateway of guests with a network.
	Network network.Options
	// Record records the events; it may be nil.
	Record events.Recorder
	Log    *slog.Logger // for messages without an event; nil discards
	// Awake keeps this computer awake while the guest is used. Nil is macOS's own way, and
	// nothing on other systems.
	Awake Awake
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
	record  events.Recorder // or nil

	life context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup

	reading sync.Mutex // held from reading the settings file until settings is set

	mu       sync.Mutex      // held for moments only, never across I/O
	status   Status          // without the fields that snapshot adds
	changed  notify.Notifier // notified of every revision of the status
	settings config.Settings
	op       *operation // under way, or nil
	tracker  *progress.Tracker
	guest    Guest // that runs, or nil
	last     Guest // that ran before, or nil
	busy     int   // commands of callers
	lastUsed time.Time
	failures failures
	closing  bool
}

// New returns the machine of a home that the caller has locked until Close. It
// starts nothing. It fails with InvalidArgs if the settings are invalid. A host
// that cannot run machines is a state, not an error.
func New(ctx context.Context, o Options) (*Machine, error) {
	file, err := config.Load(o.Home.SettingsFile())
	if err != nil {
		return nil, err
	}
	if o.Backend == nil {
		o.Backend = local{boot.New(o.Home, o.Driver, cmp.Or(o.Arch, vm.HostArch()), o.Folders, o.Bridge, o.Network)}
	}
	s := &Machine{home: o.Home, backend: o.Backend, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)), record: o.Record, settings: file.Settings()}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.work.Go(s.watchHost)
	if o.Awake == nil {
		o.Awake = caffeinated()
	}
	if o.Awake != nil {
		s.work.Go(func() { s.stayAwake(o.Awake) })
	}

	accelerator, err := o.Backend.Check(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Accelerator = accelerator
	if err != nil {
		s.set(SetupRequired, CauseBegin, err)
	} else {
		s.set(s.atRest(), CauseBegin, nil)
	}
	return s, nil
}

// Provision makes everything that a boot needs, verifies what can be verified,
// and starts the guest. It does nothing while the guest runs.
func (s *Machine) Provision(ctx context.Context, by Cause) error {
	return s.do(ctx, Provision, by, nil)
}

// Start starts the guest and provisions what is missing. Concurrent callers
// share one start and its result.
func (s *Machine) Start(ctx context.Context, by Cause) error { return s.do(ctx, Start, by, nil) }

// AutoStart starts the guest in the background if the settings say so and it
// is provisioned.
func (s *Machine) AutoStart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settings.AutoStart && s.status.State == Stopped && s.op == nil && !s.closing {
		s.begin(Start, CauseAutoStart, nil)
	}
}

// Stop ends all programs in the guest and powers it off, by force if it does not
// obey. It interrupts a start. The next command starts the guest again.
func (s *Machine) Stop(ctx context.Context, by Cause) error { return s.do(ctx, Stop, by, nil) }

// Restart is Stop and Start.
func (s *Machine) Restart(ctx context.Context, by Cause) error { return s.do(ctx, Restart, by, nil) }

// Reset discards the data disk and keeps the workspace. A running guest is
// stopped before and started after.
func (s *Machine) Reset(ctx context.Context, by Cause) error { return s.do(ctx, Reset, by, nil) }

// Remove stops the guest and removes its disk and boot files. The workspace,
// packs and settings are kept. Nothing is started automatically until Start or
// Provision is called.
func (s *Machine) Remove(ctx context.Context, by Cause) error { return s.do(ctx, Remove, by, nil) }

// Offline stops the guest, does some work that has the disk to itself, and starts the guest again if
// one ran. The context of the work ends with ctx, and when a Stop, Reset or Remove interrupts it.
func (s *Machine) Offline(ctx context.Context, by Cause, work func(context.Context) error) error {
	return s.do(ctx, Offline, by, func(op context.Context) error {
		both, cancel := context.WithCancelCause(op)
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		return work(both)
	})
}

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

// Info asks the guest for its state now; Status has its last report. It
// starts no guest.
func (s *Machine) Info(ctx context.Context) (*guest.Info, error) {
	s.mu.Lock()
	g, state := s.guest, s.status.State
	s.mu.Unlock()
	if g == nil || state != Running {
		return nil, fault.Newf(fault.Unavailable, "ask guest for its state", "", "the sandbox is %s", state).Advise(adviseStart)
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
		status, changed := s.snapshot(), s.changed.Next()
		s.mu.Unlock()
		if status.Revision != revision {
			return status, nil
		}
		select {
		case <-changed:
		case <-s.life.Done():
			return status, errClosed("watch status")
		case <-ctx.Done():
			return status, fault.Wrap("watch status", "", ctx.Err())
		}
	}
}

// Watch yields the status now and whenever it has changed, each after the one before, until the context or the
// machine ends.
func (s *Machine) Watch(ctx context.Context) iter.Seq2[Status, Status] {
	return func(yield func(was, now Status) bool) {
		var was Status
		for now := s.Status(); yield(was, now); {
			next, err := s.Next(ctx, now.Revision)
			if err != nil {
				return
			}
			was, now = now, next
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
		return policy.CheckSets(after.NetworkRules)
	})
	if err != nil {
		return nil, err
	}
	if _, err := s.reload(); err != nil { // another program may have edited the file meanwhile
		return nil, err
	}
	changed := before.Differences(after)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touch()
	for _, key := range changed {
		s.note(SettingChanged, by, map[string]string{"detail": key})
	}
	return changed, nil
}

// Close stops the guest, gently as long as the context allows. Waiting calls fail.
// A second Close does nothing.
func (s *Machine) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return nil
	}
	s.closing = true
	if s.op != nil {
		s.op.cancel(interrupted{Stop})
	}
	s.touch()
	s.mu.Unlock()

	err := s.do(ctx, Stop, CauseClose, nil)
	s.end() // whatever is still under way ends now
	s.mu.Lock()
	op := s.op
	s.mu.Unlock()
	if op != nil {
		<-op.done
	}
	s.mu.Lock()
	g := s.guest
	s.mu.Unlock()
	if g != nil {
		err = errors.Join(err, g.Close())
	}
	s.work.Wait()
	return err
}
