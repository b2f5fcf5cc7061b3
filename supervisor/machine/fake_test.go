package machine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/machine"
)

// fakeBackend is a Backend whose test decides what happens and when. It fails the
// test if it is misused, for example by two guests on one disk.
type fakeBackend struct {
	t *testing.T

	mu          sync.Mutex
	provisioned bool
	noHost      bool          // Check fails
	failBoots   int           // so many boots fail from now on
	failPrepare bool          // Prepare fails
	failRemove  bool          // Remove fails half way
	delay       time.Duration // of every operation
	stuck       chan struct{} // if not nil, everything waits until it is closed
	immortal    bool          // guests do not end
	stays       error         // why machines that are killed are given up
	guest       *fakeGuest    // the last one
	boots       int
	disks       int // number of resets
	fresh       int // number of calls of Prepare with fresh
}

func (b *fakeBackend) set(change func(*fakeBackend)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

// work waits for delay and stuck.
func (b *fakeBackend) work(ctx context.Context) error {
	b.mu.Lock()
	delay, stuck := b.delay, b.stuck
	b.mu.Unlock()
	return pass(ctx, delay, stuck)
}

func pass(ctx context.Context, delay time.Duration, stuck <-chan struct{}) error {
	if stuck != nil {
		select {
		case <-stuck:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	select {
	case <-time.After(delay):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// alone fails the test if a guest runs while its disk is touched.
func (b *fakeBackend) alone(what string) {
	if b.guest != nil && !b.guest.over() {
		b.t.Errorf("%s while a guest runs", what)
	}
}

func (b *fakeBackend) Check(context.Context) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.noHost {
		return "", fault.Newf(fault.Unavailable, "look for QEMU", "", "there is none").Advise("Install it.")
	}
	return "fake", nil
}

func (b *fakeBackend) Provisioned() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.provisioned
}

func (b *fakeBackend) Ready(config.Settings) bool { return b.Provisioned() }

func (b *fakeBackend) Prepare(ctx context.Context, _ config.Settings, fresh bool, tracker *progress.Tracker) error {
	return tracker.Do(progress.StepImage, func(report progress.Func) error {
		b.mu.Lock()
		b.alone("Prepare")
		if fresh {
			b.fresh++
		}
		fail := b.failPrepare
		b.mu.Unlock()
		if err := b.work(ctx); err != nil {
			return err
		}
		if fail {
			return fault.Newf(fault.Unavailable, "download", "", "no network")
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.provisioned = true
		return nil
	})
}

func (b *fakeBackend) Boot(ctx context.Context, _ config.Settings, tracker *progress.Tracker) (machine.Guest, boot.Machine, error) {
	var g *fakeGuest
	err := tracker.Do(progress.StepBoot, func(progress.Func) error {
		b.mu.Lock()
		b.alone("Boot")
		if !b.provisioned {
			b.t.Error("Boot of what was not prepared")
		}
		b.boots++
		fail := b.failBoots > 0
		b.failBoots = max(0, b.failBoots-1)
		b.mu.Unlock()
		if err := b.work(ctx); err != nil {
			return err
		}
		if fail {
			return fault.Newf(fault.Timeout, "boot guest", "", "it did not answer")
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		g = &fakeGuest{backend: b, done: make(chan struct{})}
		b.guest = g
		return nil
	})
	if err != nil {
		return nil, boot.Machine{}, err
	}
	return g, boot.Machine{Pack: "fake"}, nil
}

func (b *fakeBackend) Reset(ctx context.Context) error {
	b.mu.Lock()
	b.alone("Reset")
	b.disks++
	b.mu.Unlock()
	return b.work(ctx)
}

func (b *fakeBackend) Remove(ctx context.Context) error {
	b.mu.Lock()
	b.alone("Remove")
	b.provisioned = false
	fail := b.failRemove
	b.mu.Unlock()
	if fail {
		return fault.Newf(fault.Unavailable, "remove", "image", "it is in use").Advise("Close it.")
	}
	return b.work(ctx)
}

// fakeGuest is a guest without a machine.
type fakeGuest struct {
	engineMethods
	backend *fakeBackend
	done    chan struct{}

	mu     sync.Mutex
	frozen chan struct{} // closed when it answers again; nil if it does
	slow   time.Duration // duration of an answer
	asleep time.Duration // duration of the next ping, whatever its deadline
	mute   bool
	err    error

	stalled error // why its machine is stalled
}

func (g *fakeGuest) over() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}

// die ends the machine. Without an error, the guest has powered itself off.
func (g *fakeGuest) die(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over() {
		g.err = err
		close(g.done)
	}
}

func (g *fakeGuest) freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.frozen == nil {
		g.frozen = make(chan struct{})
	}
}

func (g *fakeGuest) thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.frozen != nil {
		close(g.frozen)
		g.frozen = nil
	}
}

// answersAfter delays answers.
func (g *fakeGuest) answersAfter(slow time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.slow = slow
}

// sleeps stops the daemon in the middle of a ping, as a computer's sleep does where its clock goes on.
func (g *fakeGuest) sleeps(sleep time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asleep = sleep
}

// answer waits as long as the guest takes to answer a call.
func (g *fakeGuest) answer(ctx context.Context) error {
	g.mu.Lock()
	frozen, slow := g.frozen, g.slow
	g.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return fault.New(fault.Timeout, "call guest", "", ctx.Err())
	}
	if frozen != nil {
		select {
		case <-frozen:
		case <-g.done:
		case <-ctx.Done():
			return fault.New(fault.Timeout, "call guest", "", ctx.Err())
		}
	}
	if g.over() {
		return fault.Newf(fault.Unavailable, "call guest", "", "the machine has ended")
	}
	return nil
}

func (g *fakeGuest) Ping(ctx context.Context) error {
	g.mu.Lock()
	asleep := g.asleep
	g.asleep = 0
	g.mu.Unlock()
	time.Sleep(asleep)
	return g.answer(ctx)
}

// forget makes Info hang, and nothing else.
func (g *fakeGuest) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mute = true
}

func (g *fakeGuest) Info(ctx context.Context) (*guest.Info, error) {
	g.mu.Lock()
	mute := g.mute
	g.mu.Unlock()
	if mute {
		<-ctx.Done()
		return nil, fault.New(fault.Timeout, "call guest", "", ctx.Err())
	}
	return &guest.Info{GuestVersion: "fake"}, g.answer(ctx)
}

func (g *fakeGuest) Shutdown(ctx context.Context) error {
	err := g.backend.work(ctx)
	g.backend.mu.Lock()
	immortal, stays := g.backend.immortal, g.backend.stays
	g.backend.mu.Unlock()
	if immortal {
		return errors.Join(err, errors.New("it does not end"))
	}
	g.die(stays)
	return errors.Join(err, stays)
}

// engineMethods has the methods of engine.Engine that nothing calls.
type engineMethods struct{ engine.Engine }

// Room returns a room whose commands are the guest's.
func (g *fakeGuest) Room(config.LinuxUser) engine.Room { return fakeRoom{guest: g} }

type fakeRoom struct {
	engine.Room
	guest *fakeGuest
}

func (r fakeRoom) Exec(ctx context.Context, cmd engine.Command) (engine.Process, error) {
	return r.guest.Exec(ctx, cmd)
}

// Close ends the machine, or returns stays.
func (g *fakeGuest) Close() error {
	var stuck error
	g.backend.set(func(b *fakeBackend) { stuck = b.stays })
	g.die(stuck)
	return stuck
}

func (g *fakeGuest) Done() <-chan struct{} { return g.done }

func (g *fakeGuest) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Exec runs a command whose first argument is its duration.
func (g *fakeGuest) Exec(ctx context.Context, cmd engine.Command) (engine.Process, error) {
	if err := g.answer(ctx); err != nil {
		return nil, err
	}
	takes, err := time.ParseDuration(cmd.Args[0])
	if err != nil {
		return nil, fault.New(fault.NotFound, "run command", cmd.Args[0], err)
	}
	p := &fakeProcess{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			p.err = fault.Wrap("run command", "", ctx.Err())
		case <-g.done:
			p.err = fault.Newf(fault.Unavailable, "run command", "", "the machine has ended")
		}
	}()
	return p, nil
}

type fakeProcess struct {
	done chan struct{}
	err  error
}

func (p *fakeProcess) PID() int                                    { return 1 }
func (p *fakeProcess) Resize(engine.TerminalSize) error            { return nil }
func (p *fakeProcess) Signal(context.Context, engine.Signal) error { return nil }
func (p *fakeProcess) Done() <-chan struct{}                       { return p.done }
func (p *fakeProcess) Wait() (engine.Exit, error)                  { <-p.done; return engine.Exit{}, p.err }

// world is a machine with a fake backend.
type world struct {
	*machine.Machine
	t       *testing.T
	backend *fakeBackend
	record  *record
	awake   atomic.Int32 // assertions that are held
}

// by is the cause of commands of tests.
const by = machine.Cause("test")

// newWorld makes a machine in a new home with these settings.
func newWorld(t *testing.T, settings string, change func(*fakeBackend)) *world {
	t.Helper()
	w := &world{t: t, backend: &fakeBackend{t: t}, record: &record{t: t}}
	change(w.backend)
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	if err := os.MkdirAll(filepath.Dir(home.SettingsFile()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(home.SettingsFile(), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := machine.New(t.Context(), machine.Options{Home: home, Record: w.record, Backend: w.backend, Awake: w.stayAwake})
	if err != nil {
		t.Fatal(err)
	}
	w.Machine = s
	return w
}

func (w *world) stayAwake() func() {
	w.awake.Add(1)
	return func() { w.awake.Add(-1) }
}

// inWorld runs a test in synthetic time, with a machine that is closed afterwards.
func inWorld(t *testing.T, settings string, change func(*fakeBackend), test func(*testing.T, *world)) {
	t.Helper()
	timetest.Synthetic(t, func(t *testing.T) {
		w := newWorld(t, settings, change)
		defer w.close()
		test(t, w)
	})
}

// boots, cold and disks return counts of the backend, running its last guest.
func (w *world) boots() (n int) { w.backend.set(func(b *fakeBackend) { n = b.boots }); return n }
func (w *world) cold() (n int)  { w.backend.set(func(b *fakeBackend) { n = b.fresh }); return n }
func (w *world) disks() (n int) { w.backend.set(func(b *fakeBackend) { n = b.disks }); return n }
func (w *world) running() *fakeGuest {
	var g *fakeGuest
	w.backend.set(func(b *fakeBackend) { g = b.guest })
	return g
}

// close closes the machine, which must end its guest.
func (w *world) close() {
	w.t.Helper()
	if err := w.Close(context.WithoutCancel(w.t.Context())); err != nil {
		w.t.Errorf("Close: %v", err)
	}
	if g := w.running(); g != nil && !g.over() {
		w.t.Error("a guest runs after Close")
	}
	if n := w.awake.Load(); n != 0 {
		w.t.Errorf("%d assertions are held after Close", n)
	}
}

// command runs a command by its name.
func (w *world) command(ctx context.Context, c machine.Command) error {
	switch c {
	case machine.Provision:
		return w.Provision(ctx, by)
	case machine.Start:
		return w.Start(ctx, by)
	case machine.Stop:
		return w.Stop(ctx, by)
	case machine.Restart:
		return w.Restart(ctx, by)
	case machine.Reset:
		return w.Reset(ctx, by)
	case machine.Remove:
		return w.Remove(ctx, by)
	}
	p, err := w.Exec(ctx, engine.Command{Args: []string{"10ms"}})
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wantState(want machine.State) {
	w.t.Helper()
	if got := w.Status(); got.State != want {
		w.t.Fatalf("the sandbox is %s (%s), want %s", got.State, got.Reason, want)
	}
}
