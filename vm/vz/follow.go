//go:build darwin || vzstandin

package vz

import (
	"errors"
	"fmt"
	"time"

	"github.com/Code-Hex/vz/v3"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

const (
	// panicGrace is what a kernel has to finish its report before its machine
	// is ended. It resets itself after ten seconds: see kernelArgs.
	panicGrace = time.Second
	// pullEvery is how often a machine that is to end is tried to be stopped:
	// the framework refuses while it changes from one state to another.
	pullEvery = 100 * time.Millisecond
	// pullPatience is how long that may take: far more than the second that
	// the framework needs.
	pullPatience = 30 * time.Second
)

// states are what the framework's mean here. No machine is ever saved or restored.
var states = map[vz.VirtualMachineState]vm.State{
	vz.VirtualMachineStateStarting: vm.Starting,
	vz.VirtualMachineStateRunning:  vm.Running,
	vz.VirtualMachineStatePausing:  vm.Pausing,
	vz.VirtualMachineStatePaused:   vm.Paused,
	vz.VirtualMachineStateResuming: vm.Resuming,
	vz.VirtualMachineStateStopping: vm.Stopping,
}

// follow goes with a machine from its start to its end. It alone reads the
// framework's states, which go to one reader only, tell no reasons, and do not
// end by themselves. While it runs the machine is referenced, and with it all
// that the framework's machine must not lose.
func (m *machine) follow(op string, powered <-chan error) {
	var (
		changes  = m.apple.StateChangedNotify()
		cable    = m.cable
		panicked = m.serial.panicked()
		again    <-chan time.Time // when to try to stop it
		stopped  chan error       // an attempt to do so is under way
		patience <-chan time.Time // when to give that up
		over     error            // why it has ended
		isOver   bool
	)
	for {
		select {
		case err := <-powered:
			powered = nil
			if err != nil {
				m.finish(explain(op, m.name, err))
				return
			}
		case s := <-changes:
			switch s {
			case vz.VirtualMachineStateStopped:
				isOver = true
			case vz.VirtualMachineStateError:
				isOver, over = true, m.broken()
			default:
				m.move(s)
			}
		case <-panicked:
			panicked = nil
			time.AfterFunc(panicGrace, func() { m.Pull() })
		case <-cable:
			cable = nil
			again, patience = time.After(0), time.After(pullPatience)
		case <-again:
			again = nil
			if powered != nil {
				again = time.After(pullEvery)
				break
			}
			stopped = make(chan error, 1)
			go func() {
				if !m.apple.CanStop() {
					stopped <- errors.New("it cannot be stopped now")
					return
				}
				stopped <- m.apple.Stop()
			}()
		case <-stopped:
			// The state says whether it has; that may be known already.
			stopped, again = nil, time.After(pullEvery)
		case <-patience:
			// Followed all the same: what it has must not be taken from it.
			patience = nil
			m.abandon()
		}
		if isOver && powered == nil {
			m.finish(over)
			return
		}
	}
}

// move follows the framework's machine into a state.
func (m *machine) move(s vz.VirtualMachineState) {
	to, known := states[s]
	if known && to != m.State() {
		m.Move(to, vm.Starting, vm.Running, vm.Pausing, vm.Paused, vm.Resuming, vm.Stopping)
	}
}

// broken is the error of a machine that the framework gave up.
func (m *machine) broken() error {
	return explain("run machine", m.name, fmt.Errorf("the framework reports an error of the virtual machine; its guest said last:\n%s", m.serial.tail()))
}

// finish ends the machine, which is over because of err.
func (m *machine) finish(err error) {
	m.Release()
	if report := m.serial.report(); report != "" {
		err = m.Panicked(report)
	}
	m.End(m.Verdict(err))
}

// abandon ends a machine's life although the framework does not.
func (m *machine) abandon() {
	m.sockets.close()
	m.Abandon(fault.Newf(fault.Timeout, "kill machine", m.name, "the framework has not stopped it for %v", pullPatience).
		Advise("End its process com.apple.Virtualization.VirtualMachine in the Activity Monitor."))
}
