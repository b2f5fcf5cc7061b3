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
	// endPatience is how long a machine may take to end after ForceOff or after
	// QEMU has ended. It is more than a device waits for a hanging operation,
	// which is five seconds for each of its two queues (vhostuser).
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
	socket   *vsock.Device // one of them
	run      *run          // nil before Start

	pulled chan struct{} // closed by Pull
	once   sync.Once

	stopped chan struct{} // QEMU has stopped the processors, which may have been asked of it
	full    atomic.Bool   // they stand still since the disk of the host is

	mu       sync.Mutex
	shutdown string // why QEMU said that it ends
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
	// The caller may go on to use its slices.
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
	// A guest may have ended already: that was a start too.
	m.Move(vm.Running, vm.Starting)
	go m.awaitRoom()
	return nil
}

// launch starts QEMU and whoever waits for its end.
func (m *machine) launch() error {
	r, err := launch(&m.cfg, m.program.path, m.accel, m.backends, m.log)
	if err != nil {
		return err
	}
	m.run = r
	go m.follow()
	return nil
}

// follow goes with a machine from its start to its end.
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
		// Followed all the same: what it has must not be taken from it.
		m.abandon()
		<-gone
	}
	m.Release()
	m.End(m.EndError(m.outcome()))
}

// abandon ends a machine's life although QEMU or what serves it does not end.
func (m *machine) abandon() {
	_ = m.socket.Close()
	m.Abandon(fault.Newf(fault.Timeout, "kill machine", m.cfg.Name, "it is not gone after %v", endPatience).Advise(stays))
}

// outcome says how the machine has ended, once QEMU is gone: nil is orderly.
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
		cause = fmt.Errorf("qemu ended unasked (%s)", m.shutdown)
	}
	return fault.New(fault.Execution, "run machine", m.cfg.Name, cause).
		Advise("Something ended QEMU: see the host's kernel log (sudo dmesg) for a lack of memory, then start the machine again.")
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

// event follows what QEMU does by itself.
func (m *machine) event(e qmp.Event) {
	switch e.Name {
	case "STOP":
		m.Move(vm.Paused, vm.Running, vm.Pausing)
		select {
		case m.stopped <- struct{}{}:
		default: // it is looked into yet
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

// change takes the machine from one state to another by a command. If QEMU
// does not answer the state is the old one again, until it does: see event.
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

// tell executes a command of QEMU's in a state that has a control connection.
func (m *machine) tell(ctx context.Context, op, command string) error {
	if err := m.run.control.Do(ctx, command, nil, nil); err != nil {
		return fault.Wrap(op, m.cfg.Name, err)
	}
	return nil
}
