package vm

import (
	"context"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
)

// endTimeout bounds the end of a machine that was killed. It is longer than devices wait
// for hanging requests (see vhostuser).
const endTimeout = 30 * time.Second

// Base implements what machines of all drivers share: state, start, end and ports. A
// machine starts once, and ends by Kill, by Close, by a failed start or by itself.
// Drivers embed a Base.
type Base struct {
	name        string
	backend     Backend
	sockets     Sockets
	stuckAdvice string
	running     chan struct{} // closed when its processors run
	done        chan struct{}

	power   sync.Mutex // serializes start, kill and end
	on      bool       // started
	asked   bool       // Kill or Close was called
	failure error      // that Fail was called with
	stuck   error      // the machine did not end in time; nil again after End

	mu       sync.Mutex
	state    State
	err      error
	timer    *time.Timer // of Ending
	warnings []string
}

// Backend is what Base needs of a driver's machine.
type Backend interface {
	// ForceOff starts to end the machine and reports whether it was still running.
	// The driver calls End when the machine is gone. ForceOff may be called again.
	ForceOff() bool
	// PressButton presses the power button of a running machine.
	PressButton(ctx context.Context) error
	// Release frees the resources of a machine that is not running.
	Release()
}

// Sockets is a driver's vsock device. Its methods do what Machine says, with errors of
// any kind. Close ends all connections and listeners.
type Sockets interface {
	Dial(ctx context.Context, port uint32) (net.Conn, error)
	Listen(port uint32) (net.Listener, error)
	io.Closer
}

// NewBase returns the base of a machine that has not started. stuckAdvice is the advice
// if a killed machine does not end.
func NewBase(name string, backend Backend, sockets Sockets, stuckAdvice string) *Base {
	return &Base{name: name, backend: backend, sockets: sockets, stuckAdvice: stuckAdvice, state: Stopped, running: make(chan struct{}), done: make(chan struct{})}
}

// Run calls launch and returns when the machine runs or has ended. After launch, the driver must
// call Started, and End when the machine ends. If launch fails, it must leave nothing running.
func (b *Base) Run(ctx context.Context, launch func() error) error {
	const op = "start machine"
	start := launch
	if err := ctx.Err(); err != nil {
		start = func() error { return err }
	}
	if err := b.launch(op, start); err != nil {
		return err
	}
	select {
	case <-b.running:
	case <-b.done:
	case <-ctx.Done():
		b.Fail(fault.Wrap(op, b.name, ctx.Err()))
		<-b.done
	}
	if err := b.Err(); err != nil || notify.Closed(b.running) {
		return err
	}
	return fault.Newf(fault.Rejected, op, b.name, "it was killed")
}

func (b *Base) launch(op string, launch func() error) error {
	b.power.Lock()
	defer b.power.Unlock()
	if !b.move(Stopped, Starting) {
		return b.stateError(op)
	}
	if err := launch(); err != nil {
		err = fault.Wrap(op, b.name, err)
		b.backend.Release()
		b.finish(err)
		return err
	}
	b.on = true
	return nil
}

// Started moves to Running if the machine is Starting.
func (b *Base) Started() {
	if b.move(Starting, Running) {
		close(b.running)
	}
}

// Fail ends a launched machine, with this error if it has not ended already.
func (b *Base) Fail(why error) {
	b.power.Lock()
	defer b.power.Unlock()
	b.failure = why
	b.backend.ForceOff()
	b.Ending()
}

// Ending starts the time in which a machine has to end. When it is over, the machine
// counts as ended, but Kill and Close fail until the driver calls End.
func (b *Base) Ending() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer == nil && !b.Ended() {
		b.timer = time.AfterFunc(endTimeout, b.abandon)
	}
}

func (b *Base) abandon() {
	_ = b.sockets.Close()
	b.power.Lock()
	defer b.power.Unlock()
	if !b.Ended() {
		b.stuck = fault.Newf(fault.Timeout, "kill machine", b.name, "it is not gone after %v", endTimeout).Advise(b.stuckAdvice)
		b.finish(b.stuck)
	}
}

// End releases a machine that is gone and ends its life. outcome, which is called after
// Release, returns the error with which it ended. It does not count if Kill, Close or
// Fail was called.
func (b *Base) End(outcome func() error) {
	b.backend.Release()
	err := outcome()
	b.power.Lock()
	defer b.power.Unlock()
	switch {
	case b.asked:
		err = nil
	case b.failure != nil:
		err = b.failure
	}
	b.stuck = nil
	b.finish(err)
}

// finish moves to the last state. Only the first call counts.
func (b *Base) finish(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Ended() {
		return
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.state = Stopped; err != nil {
		b.state = Failed
	}
	b.err = err
	close(b.done)
}

func (b *Base) move(from, to State) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != from || b.Ended() {
		return false
	}
	b.state = to
	return true
}

// PanicError returns the error for a kernel panic with this report.
func (b *Base) PanicError(report string) error {
	return fault.Newf(fault.Execution, "run machine", b.name, "the guest's kernel panicked:\n%s", report).
		Advise("Start it again; if it panics again, another pack or more memory may help.")
}

// stateError returns the error for an operation that the current state does not allow.
func (b *Base) stateError(op string) error {
	e := fault.Newf(fault.Rejected, op, b.name, "it is %s", b.State())
	if b.Ended() {
		return e.Advise("A machine runs once: make a new one.")
	}
	return e
}

// State implements Machine.
func (b *Base) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// Warn adds a warning.
func (b *Base) Warn(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.warnings = append(b.warnings, text)
}

// Warnings implements Machine.
func (b *Base) Warnings() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.warnings)
}

// Stalled implements Machine for drivers that never pause a machine.
func (b *Base) Stalled() error { return nil }

// Done implements Machine.
func (b *Base) Done() <-chan struct{} { return b.done }

// Ended reports whether Done is closed.
func (b *Base) Ended() bool { return notify.Closed(b.done) }

// Err implements Machine.
func (b *Base) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// RequestStop implements Machine.
func (b *Base) RequestStop(ctx context.Context) error {
	const op = "press power button"
	if b.State() != Running {
		return b.stateError(op)
	}
	if err := b.backend.PressButton(ctx); err != nil {
		return fault.Wrap(op, b.name, err)
	}
	return nil
}

// Kill implements Machine.
func (b *Base) Kill(ctx context.Context) error {
	b.power.Lock()
	on := b.on
	if on && !b.Ended() && b.backend.ForceOff() {
		b.asked = true
		b.Ending()
	}
	b.power.Unlock()
	if !on {
		return nil
	}
	select {
	case <-b.done:
		b.power.Lock()
		defer b.power.Unlock()
		return b.stuck
	case <-ctx.Done():
		return fault.Wrap("kill machine", b.name, ctx.Err()).Advise(b.stuckAdvice)
	}
}

// Close implements Machine.
func (b *Base) Close() error {
	b.power.Lock()
	if !b.on && !b.Ended() {
		b.backend.Release()
		b.finish(nil)
	}
	b.power.Unlock()
	return b.Kill(context.Background())
}

// Dial implements Machine.
func (b *Base) Dial(ctx context.Context, port uint32) (net.Conn, error) {
	const op = "dial guest port"
	if b.Ended() {
		return nil, b.stateError(op)
	}
	c, err := b.sockets.Dial(ctx, port)
	if err != nil {
		kind := fault.Unavailable
		if fault.KindOf(err) == fault.Timeout {
			kind = fault.Timeout
		}
		return nil, fault.New(kind, op, portName(port), err)
	}
	return c, nil
}

// Listen implements Machine.
func (b *Base) Listen(port uint32) (net.Listener, error) {
	const op = "listen on host port"
	if b.Ended() {
		return nil, b.stateError(op)
	}
	l, err := b.sockets.Listen(port)
	if err != nil {
		return nil, fault.New(fault.Rejected, op, portName(port), err).Advise("Close the port's other listener first.")
	}
	return l, nil
}

func portName(port uint32) string { return strconv.FormatUint(uint64(port), 10) }
