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

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/fs"
)

const stuckAdvice = "QEMU or one of its devices was killed but has not exited: it waits for a disk or share of the host. Check that these respond, or restart the host."

// machine implements vm.Machine.
type machine struct {
	*vm.Base
	cfg      vm.Config
	program  string // path
	accel    string
	log      *slog.Logger
	backends []backend
	run      *run // nil before Start

	full atomic.Bool // QEMU has paused it because the host's disk is full

	mu       sync.Mutex
	shutdown string // reason of QEMU's SHUTDOWN event
}

var _ vm.Machine = (*machine)(nil)

func newMachine(cfg vm.Config, program string, accel string, shares fs.Options) (*machine, error) {
	backends, socket, err := newBackends(&cfg, shares)
	if err != nil {
		return nil, err
	}
	// Copy, because the caller may change its slices.
	cfg.KernelArgs, cfg.Disks, cfg.Shares = slices.Clone(cfg.KernelArgs), slices.Clone(cfg.Disks), nil
	m := &machine{cfg: cfg, program: program, accel: accel, log: shares.Log, backends: backends}
	m.Base = vm.NewBase(cfg.Name, m, socket, stuckAdvice)
	return m, nil
}

func (m *machine) Start(ctx context.Context) error { return m.Run(ctx, m.launch) }

// outcome returns the error with which the machine ended, or nil after a shutdown. Call it after
// QEMU's end.
func (m *machine) outcome() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	cause, report := m.run.cause(), m.run.console.Panic()
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

func (m *machine) ForceOff() bool { return m.run.kill() }

func (m *machine) PressButton(ctx context.Context) error {
	return m.run.control.Do(ctx, "system_powerdown")
}

func (m *machine) Release() { closeBackends(m.backends) }

// event handles an event from QEMU.
func (m *machine) event(name string, about json.RawMessage) {
	switch name {
	case "BLOCK_IO_ERROR":
		var data struct{ NoSpace bool }
		if json.Unmarshal(about, &data) == nil && data.NoSpace && m.full.CompareAndSwap(false, true) {
			go m.awaitSpace()
		}
	case "SHUTDOWN":
		var data struct{ Reason string }
		if err := json.Unmarshal(about, &data); err != nil {
			data.Reason = "for an unreadable reason"
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.shutdown = data.Reason
	}
}
