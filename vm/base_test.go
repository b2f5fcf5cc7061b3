package vm_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// fakeMachine is a machine without hardware.
type fakeMachine struct {
	*vm.Base
	dead     bool  // it has ended by itself, and Base does not know yet
	deaf     bool  // ForceOff does not end it
	how      error // it ends with this error
	released int
	closed   bool // sockets
}

func newMachine() *fakeMachine {
	m := new(fakeMachine)
	m.Base = vm.NewBase("test", m, m, "Restart the host.")
	return m
}

func (m *fakeMachine) ForceOff() bool {
	if m.dead || m.deaf {
		return !m.dead
	}
	m.dead = true
	go m.end()
	return true
}

func (m *fakeMachine) Release() { m.released++ }

func (m *fakeMachine) PressButton(context.Context) error { return errWhy }

// Dial, Listen and Close implement vm.Sockets.
func (m *fakeMachine) Dial(context.Context, uint32) (net.Conn, error) { return nil, net.ErrClosed }
func (m *fakeMachine) Listen(uint32) (net.Listener, error)            { return nil, net.ErrClosed }
func (m *fakeMachine) Close() error                                   { m.closed = true; return nil }

func (m *fakeMachine) end() { m.End(func() error { return m.how }) }

func (m *fakeMachine) start(t *testing.T) {
	t.Helper()
	if err := m.Run(t.Context(), func() error { go m.Started(); return nil }); err != nil || m.State() != vm.Running {
		t.Fatalf("Run = %v, state %s", err, m.State())
	}
}

// wantEnd checks that the machine has ended with why and was released once.
func (m *fakeMachine) wantEnd(t *testing.T, why error) {
	t.Helper()
	<-m.Done()
	if err := m.Err(); !errors.Is(err, why) {
		t.Errorf("Err = %v, want %v", err, why)
	}
	if err := errors.Join(m.Base.Close(), m.Base.Close()); err != nil {
		t.Errorf("Close = %v", err)
	}
	if m.released != 1 {
		t.Errorf("released %d times", m.released)
	}
	if err := m.Run(t.Context(), func() error { return nil }); fault.KindOf(err) != fault.Rejected {
		t.Errorf("Run after the end = %v, want rejected", err)
	}
}

var errWhy = errors.New("why")

func TestBaseNotStarted(t *testing.T) {
	m := newMachine()
	if err := m.Kill(t.Context()); err != nil || m.Ended() {
		t.Errorf("Kill = %v, ended %v", err, m.Ended())
	}
	if err := m.Base.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	m.wantEnd(t, nil)

	m = newMachine()
	if err := m.Run(t.Context(), func() error { return fault.New(fault.Unavailable, "", "", errWhy).Advise("Do that.") }); fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) != "Do that." {
		t.Errorf("Run = %v, advice %q", err, fault.AdviceOf(err))
	}
	if m.State() != vm.Failed {
		t.Errorf("state after a failed start: %s", m.State())
	}
	m.wantEnd(t, errWhy)
}

// A machine that was killed ends without an error. If it ends by itself just before,
// its own error counts.
func TestBaseKill(t *testing.T) {
	m := newMachine()
	m.how = errors.New("signal: killed")
	m.start(t)
	if err := m.Kill(t.Context()); err != nil {
		t.Errorf("Kill = %v", err)
	}
	m.wantEnd(t, nil)

	m = newMachine()
	m.how = errWhy
	m.start(t)
	m.dead = true
	killed := make(chan error, 1)
	go func() { killed <- m.Kill(context.WithoutCancel(t.Context())) }()
	m.end()
	if err := <-killed; err != nil {
		t.Errorf("Kill = %v", err)
	}
	m.wantEnd(t, errWhy)
}

// A start that fails, is killed or is given up says so, and leaves nothing running.
func TestBaseFailedStart(t *testing.T) {
	m := newMachine()
	if err := m.Run(t.Context(), func() error { go m.Fail(errWhy); return nil }); !errors.Is(err, errWhy) {
		t.Errorf("Run = %v", err)
	}
	m.wantEnd(t, errWhy)

	m = newMachine()
	if err := m.Run(t.Context(), func() error { go m.Kill(context.Background()); return nil }); fault.KindOf(err) != fault.Rejected {
		t.Errorf("Run of a machine that is killed = %v, want rejected", err)
	}
	m.Fail(errWhy)
	m.wantEnd(t, nil)

	m = newMachine()
	ctx, cancel := context.WithCancel(t.Context())
	if err := m.Run(ctx, func() error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
	m.wantEnd(t, context.Canceled)

	m = newMachine()
	if err := m.Run(ctx, func() error { m.Started(); return nil }); !errors.Is(err, context.Canceled) {
		t.Fatalf("Run with a context that had ended = %v", err)
	}
	m.wantEnd(t, context.Canceled)
}

func TestBaseDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		m.deaf = true
		m.start(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := m.Kill(ctx); !errors.Is(err, context.Canceled) || fault.AdviceOf(err) != "Restart the host." {
			t.Errorf("Kill = %v, advice %q", err, fault.AdviceOf(err))
		}
		if err := m.Kill(t.Context()); fault.KindOf(err) != fault.Timeout || m.State() != vm.Failed || !m.closed {
			t.Errorf("Kill = %v, state %s, sockets closed: %v", err, m.State(), m.closed)
		}
		if err := m.Base.Close(); fault.KindOf(err) != fault.Timeout {
			t.Errorf("Close = %v", err)
		}
		m.end()
		if err := m.Base.Close(); err != nil || fault.KindOf(m.Err()) != fault.Timeout {
			t.Errorf("when it is gone after all: Close = %v, Err = %v", err, m.Err())
		}
	})
}
