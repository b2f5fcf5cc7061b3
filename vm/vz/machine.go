//go:build darwin || vzstandin

package vz

import (
	"context"
	"errors"
	"sync"

	"github.com/Code-Hex/vz/v3"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// machine implements vm.Machine.
type machine struct {
	*vm.Power
	vm.Ports
	name     string
	apple    *vz.VirtualMachine
	hardware *vz.VirtualMachineConfiguration
	serial   *serial
	sockets  *switchboard

	forceOff chan struct{} // closed by ForceOff
	once     sync.Once
}

var (
	_ vm.Machine = (*machine)(nil)
	_ vm.Backend = (*machine)(nil)
)

func (m *machine) Start(ctx context.Context) error {
	const op = "start machine"
	watching, cancel := context.WithCancel(context.Background())
	defer cancel()
	states := m.Watch(watching)
	if err := m.Launch(op, func() error { return m.begin(ctx, op) }); err != nil {
		return err
	}
	if err := m.reach(ctx, op, states, vm.Running); err != nil {
		return m.AbortStart(op, err)
	}
	return nil
}

// begin powers the machine on.
func (m *machine) begin(ctx context.Context, op string) error {
	if err := m.serial.open(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	powered := make(chan error, 1)
	go func() { powered <- m.apple.Start() }()
	go m.follow(op, powered)
	return nil
}

func (m *machine) ForceOff() bool {
	m.once.Do(func() { close(m.forceOff) })
	return true
}

func (m *machine) Release() {
	m.sockets.close()
	m.serial.close()
}

// Stalled returns nil: the framework does not pause machines by itself.
func (*machine) Stalled() error { return nil }

func (m *machine) RequestStop(ctx context.Context) error {
	const op = "press power button"
	if m.State() != vm.Running {
		return m.StateError(op)
	}
	return m.call(ctx, op, func() error {
		pressed, err := m.apple.RequestStop()
		if err == nil && !pressed {
			err = errors.New("the framework refuses without a reason")
		}
		return err
	})
}

func (m *machine) Pause(ctx context.Context) error {
	return m.change(ctx, "pause machine", m.apple.Pause, vm.Running, vm.Paused)
}

func (m *machine) Resume(ctx context.Context) error {
	return m.change(ctx, "resume machine", m.apple.Resume, vm.Paused, vm.Running)
}

// change moves the machine from one state to another. If the framework does not answer
// in time, the state changes later.
func (m *machine) change(ctx context.Context, op string, do func() error, from, to vm.State) error {
	watching, cancel := context.WithCancel(context.Background())
	defer cancel()
	states := m.Watch(watching)
	if m.State() != from {
		return m.StateError(op)
	}
	if err := m.call(ctx, op, do); err != nil {
		return err
	}
	return m.reach(ctx, op, states, to)
}

// call calls the framework and returns when it answers or the context ends.
func (m *machine) call(ctx context.Context, op string, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		if err != nil {
			return explain(op, m.name, err)
		}
		return nil
	case <-ctx.Done():
		return m.impatient(ctx, op)
	}
}

// reach waits for a state.
func (m *machine) reach(ctx context.Context, op string, states <-chan vm.State, want vm.State) error {
	for {
		select {
		case s, open := <-states:
			if !open {
				return m.StateError(op)
			}
			if s == want {
				return nil
			}
		case <-ctx.Done():
			return m.impatient(ctx, op)
		}
	}
}

const noAnswerAdvice = "The framework does not answer: try again, or kill the machine."

func (m *machine) impatient(ctx context.Context, op string) error {
	return fault.Wrap(op, m.name, ctx.Err()).
		Advise(noAnswerAdvice)
}
