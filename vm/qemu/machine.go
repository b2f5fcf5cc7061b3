//go:build linux

package qemu

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu/qmp"
	"osaurus-sandbox/vm/qemu/vsock"
)

const (
	// endPatience bounds the end of a machine after ForceOff or QEMU's exit. It is longer than devices
	// wait for hanging requests: five seconds for each of two queues (vhostuser).
	endPatience = 30 * time.Second

	stays = "QEMU is killed but not gone, or what served it: it waits for a disk or share of the host. See that these answer, or restart the host."
)

// machine implements vm.Machine.
type machine struct {
	*vm.Power
	vm.Ports
	cfg      vm.Config
	program  program
	accel    Accelerator
	log      *slog.Logger
	backends []backend
	socket   *vsock.Device // also in backends
	run      *run          // nil before Start

	pulled chan struct{} // closed by ForceOff
	once   sync.Once

	stopped chan struct{} // QEMU has paused the machine, on request or by itself
	full    atomic.Bool   // paused because the host's disk is full

	mu       sync.Mutex
	shutdown string // reason of QEMU's SHUTDOWN event
}

var (
	_ vm.Machine = (*machine)(nil)
	_ vm.Backend = (*machine)(nil)
)

func newMachine(cfg vm.Config, p program, accel Accelerator, log *slog.Logger) (*machine, error) {
	backends, socket, err := newBackends(&cfg, log)
	if err != nil {
		return nil, err
	}
	// Copy, because the caller may change its slices.
	cfg.KernelArgs, cfg.Disks, cfg.Shares = slices.Clone(cfg.KernelArgs), slices.Clone(cfg.Disks), nil
	m := &machine{cfg: cfg, program: p, accel: accel, log: log, backends: backends, socket: socket, pulled: make(chan struct{}), stopped: make(chan struct{}, 1)}
	m.Power = vm.NewPower(cfg.Name, m, stays)
	m.Ports = vm.NewPorts(m.Life, socket)
	return m, nil
}

func (m *machine) Start(ctx context.Context) error {
	const op = "start machine"
	if err := m.Launch(op, m.launch); err != nil {
		return err
	}
	if err := m.run.connect(ctx, m.event); err != nil {
		if ctx.Err() == nil && m.run.exits() {
			return m.FailedStart(op)
		}
		return m.AbortStart(op, fault.Wrap(op, m.cfg.Name, err).Advise(fault.AdviceOf(err)))
	}
	// If the guest has ended already, Start still succeeds.
	m.Move(vm.Running, vm.Starting)
	go m.awaitRoom()
	return nil
}

// launch starts QEMU and the goroutines that wait for its end.
func (m *machine) launch() error {
	r, err := launch(&m.cfg, m.program.path, m.accel, m.backends, m.log)
	if err != nil {
		return err
	}
	m.run = r
	go m.follow()
	return nil
}

// follow waits for a started machine to end.
func (m *machine) follow() {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		m.run.wait()
	}()
	select {
	case <-m.run.process.exited:
	case <-m.pulled:
	}
	select {
	case <-gone:
	case <-time.After(endPatience):
		// Keep waiting: its files must not be reused while it runs.
		m.abandon()
		<-gone
	}
	m.Release()
	m.End(m.EndError(m.outcome()))
}

// abandon marks the machine as ended although QEMU or a device does not end.
func (m *machine) abandon() {
	_ = m.socket.Close()
	m.Abandon(fault.Newf(fault.Timeout, "kill machine", m.cfg.Name, "it is not gone after %v", endPatience).Advise(stays))
}

// outcome returns the error with which the machine ended, or nil after a shutdown. Call it after
// QEMU's end.
func (m *machine) outcome() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	cause, report := m.run.process.cause(), m.run.console.Panic()
	switch {
	case cause == nil && m.shutdown == "guest-reset" && report != "":
		return m.PanicError(report)
	case cause == nil && (m.shutdown == "guest-shutdown" || m.shutdown == "guest-reset"):
		return nil
	case cause != nil && m.run.control == nil:
		return fault.New(fault.Execution, "start machine", m.cfg.Name, cause).
			Advise("QEMU refused to run this machine; check the host with `osaurus-sandbox doctor`.")
	case cause == nil:
		cause = fmt.Errorf("qemu ended unexpectedly (%s)", m.shutdown)
	}
	return fault.New(fault.Execution, "run machine", m.cfg.Name, cause).
		Advise("QEMU was killed: check the host's kernel log (sudo dmesg) for lack of memory, then start the machine again.")
}

func (m *machine) ForceOff() bool {
	if !m.run.alive() {
		return false
	}
	m.stopping()
	m.run.process.kill()
	m.once.Do(func() { close(m.pulled) })
	return true
}

func (m *machine) Release() { closeBackends(m.backends) }

// event handles an event from QEMU.
func (m *machine) event(e qmp.Event) {
	switch e.Name {
	case "STOP":
		m.Move(vm.Paused, vm.Running, vm.Pausing)
		select {
		case m.stopped <- struct{}{}:
		default: // already signalled
		}
	case "RESUME":
		m.Move(vm.Running, vm.Paused, vm.Resuming)
	case "SHUTDOWN":
		var data struct{ Reason string }
		if err := json.Unmarshal(e.Data, &data); err != nil {
			data.Reason = "for an unreadable reason"
		}
		m.mu.Lock()
		m.shutdown = data.Reason
		m.mu.Unlock()
		m.stopping()
	}
}

func (m *machine) stopping() {
	m.Move(vm.Stopping, vm.Starting, vm.Running, vm.Pausing, vm.Paused, vm.Resuming)
}

func (m *machine) RequestStop(ctx context.Context) error {
	const op = "press power button"
	if m.State() != vm.Running {
		return m.StateError(op)
	}
	return m.tell(ctx, op, "system_powerdown")
}

func (m *machine) Pause(ctx context.Context) error {
	return m.change(ctx, "pause machine", "stop", vm.Running, vm.Pausing, vm.Paused)
}

func (m *machine) Resume(ctx context.Context) error {
	return m.change(ctx, "resume machine", "cont", vm.Paused, vm.Resuming, vm.Running)
}

// change executes a command that takes the machine from one state to another. If QEMU does not
// answer, the old state is restored, until an event reports the new one.
func (m *machine) change(ctx context.Context, op, command string, from, during, to vm.State) error {
	if !m.Move(during, from) {
		return m.StateError(op)
	}
	if err := m.tell(ctx, op, command); err != nil {
		m.Move(from, during)
		return err
	}
	m.Move(to, during)
	return nil
}

// tell executes a QEMU command, in states with a control connection.
func (m *machine) tell(ctx context.Context, op, command string) error {
	if err := m.run.control.Do(ctx, command, nil, nil); err != nil {
		return fault.Wrap(op, m.cfg.Name, err)
	}
	return nil
}
