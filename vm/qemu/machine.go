//go:build linux

package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu/qmp"
)

// machine implements vm.Machine.
type machine struct {
	*vm.Life
	vm.Ports
	cfg      vm.Config
	program  program
	accel    Accelerator
	log      *slog.Logger
	backends []backend

	mu       sync.Mutex
	run      *run   // nil before Start
	asked    bool   // the end was asked for, by Kill or Close
	shutdown string // why QEMU said that it ends
	failure  error  // why the start was given up
}

func newMachine(cfg vm.Config, p program, accel Accelerator, log *slog.Logger) (*machine, error) {
	backends, socket, err := newBackends(&cfg, log)
	if err != nil {
		return nil, err
	}
	// The caller may go on to use its slices.
	cfg.KernelArgs, cfg.Disks, cfg.Shares = slices.Clone(cfg.KernelArgs), slices.Clone(cfg.Disks), nil
	life := vm.NewLife(cfg.Name)
	return &machine{Life: life, Ports: vm.NewPorts(life, socket), cfg: cfg, program: p, accel: accel, log: log, backends: backends}, nil
}

// Start implements vm.Machine.
func (m *machine) Start(ctx context.Context) error {
	const op = "start machine"
	r, err := m.launch(op)
	if err != nil {
		return err
	}
	if err := r.connect(ctx, m.event); err != nil {
		if ctx.Err() != nil || !r.exits() {
			m.mu.Lock()
			m.failure = fault.New(fault.KindOf(err), op, m.cfg.Name, err).Advise(fault.AdviceOf(err))
			m.mu.Unlock()
			r.process.kill()
		}
		<-m.Done()
		if err := m.Err(); err != nil {
			return err
		}
		return fault.New(fault.Rejected, op, m.cfg.Name, errors.New("it was killed"))
	}
	// A guest may have ended already: that was a start too.
	m.Move(vm.Running, vm.Starting)
	return nil
}

// launch starts QEMU and whoever waits for its end.
func (m *machine) launch(op string) (*run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.Move(vm.Starting, vm.Stopped) {
		return nil, m.Misfit(op)
	}
	r, err := launch(&m.cfg, m.program.path, m.accel, m.backends, m.log)
	if err != nil {
		err = fault.New(fault.KindOf(err), op, m.cfg.Name, err).Advise(fault.AdviceOf(err))
		closeBackends(m.backends)
		m.End(err)
		return nil, err
	}
	m.run = r
	go func() {
		r.wait()
		closeBackends(m.backends)
		m.End(m.verdict())
	}()
	return r, nil
}

// verdict says whether the machine's end was orderly, once QEMU is gone.
func (m *machine) verdict() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	const op = "run machine"
	cause := m.run.process.cause()
	switch {
	case m.asked:
		return nil
	case cause == nil && m.shutdown == "guest-shutdown":
		return nil
	case cause == nil && m.shutdown == "guest-reset" && m.run.console.Panic() != "":
		return fault.New(fault.Execution, op, m.cfg.Name, fmt.Errorf("the guest's kernel panicked:\n%s", m.run.console.Panic())).
			Advise("Start it again; if it panics again, another pack or more memory may help.")
	case cause == nil && m.shutdown == "guest-reset":
		return nil
	case m.failure != nil:
		return m.failure
	case cause != nil && m.run.control == nil:
		return fault.New(fault.Execution, "start machine", m.cfg.Name, cause).
			Advise("QEMU refused to run this machine; check the host with `osaurus-sandbox doctor`.")
	case cause == nil:
		cause = fmt.Errorf("qemu ended unasked (%s)", m.shutdown)
	}
	return fault.New(fault.Execution, op, m.cfg.Name, cause).
		Advise("Something ended QEMU: see the host's kernel log (sudo dmesg) for a lack of memory, then start the machine again.")
}

// event follows what QEMU does by itself.
func (m *machine) event(e qmp.Event) {
	switch e.Name {
	case "STOP":
		m.Move(vm.Paused, vm.Running, vm.Pausing)
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

func (m *machine) stopping() bool {
	return m.Move(vm.Stopping, vm.Starting, vm.Running, vm.Pausing, vm.Paused, vm.Resuming)
}

// RequestStop implements vm.Machine.
func (m *machine) RequestStop(ctx context.Context) error {
	const op = "press power button"
	if m.State() != vm.Running {
		return m.Misfit(op)
	}
	return m.tell(ctx, op, "system_powerdown")
}

// Pause implements vm.Machine.
func (m *machine) Pause(ctx context.Context) error {
	return m.change(ctx, "pause machine", "stop", vm.Running, vm.Pausing, vm.Paused)
}

// Resume implements vm.Machine.
func (m *machine) Resume(ctx context.Context) error {
	return m.change(ctx, "resume machine", "cont", vm.Paused, vm.Resuming, vm.Running)
}

// change takes the machine from one state to another by a command. If QEMU
// does not answer the state is the old one again, until it does: see event.
func (m *machine) change(ctx context.Context, op, command string, from, during, to vm.State) error {
	if !m.Move(during, from) {
		return m.Misfit(op)
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
	m.mu.Lock()
	control := m.run.control
	m.mu.Unlock()
	if err := control.Do(ctx, command, nil, nil); err != nil {
		return fault.New(fault.KindOf(err), op, m.cfg.Name, err)
	}
	return nil
}

// Kill implements vm.Machine.
func (m *machine) Kill(ctx context.Context) error {
	m.mu.Lock()
	r := m.run
	if r != nil && r.alive() {
		m.asked = true
	}
	m.mu.Unlock()
	if r == nil {
		return nil
	}
	m.stopping()
	r.process.kill()
	select {
	case <-m.Done():
		return nil
	case <-ctx.Done():
		return fault.New(fault.KindOf(ctx.Err()), "kill machine", m.cfg.Name, ctx.Err()).
			Advise("QEMU is killed but not gone: it waits for a disk or share of the host.")
	}
}

// Close implements vm.Machine.
func (m *machine) Close() error {
	m.mu.Lock()
	if m.run == nil && !m.Ended() {
		closeBackends(m.backends)
		m.End(nil)
	}
	m.mu.Unlock()
	return m.Kill(context.Background())
}
