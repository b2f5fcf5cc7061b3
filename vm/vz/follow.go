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
	// panicGrace is how long a kernel has to print its panic report before its
	// machine is ended.
	panicGrace = time.Second
	// stopEvery is the pause between attempts to stop a machine: the framework
	// refuses while the machine changes state.
	stopEvery = 100 * time.Millisecond
	// stopTimeout is how long stopping may take. The framework needs a second.
	stopTimeout = 30 * time.Second
)

// states maps the framework's states, except those of saving and restoring, which are
// not used.
var states = map[vz.VirtualMachineState]vm.State{
	vz.VirtualMachineStateStarting: vm.Starting,
	vz.VirtualMachineStateRunning:  vm.Running,
	vz.VirtualMachineStatePausing:  vm.Pausing,
	vz.VirtualMachineStatePaused:   vm.Paused,
	vz.VirtualMachineStateResuming: vm.Resuming,
	vz.VirtualMachineStateStopping: vm.Stopping,
}

// follow tracks a started machine until its end. It is the only reader of the
// framework's channel of states, which is never closed. It keeps the machine reachable,
// so that the objects that the framework uses are not collected.
func (m *machine) follow(op string, powered <-chan error) {
	var (
		changes  = m.apple.StateChangedNotify()
		forceOff = m.forceOff
		panicked = m.serial.panicked()
		retry    <-chan time.Time // when to try to stop it
		stopped  chan error       // the result of an attempt to stop it
		timeout  <-chan time.Time // when to give up stopping it
		endErr   error            // why it has ended
		hasEnded bool
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
				hasEnded = true
			case vz.VirtualMachineStateError:
				hasEnded, endErr = true, m.frameworkError()
			default:
				m.move(s)
			}
		case <-panicked:
			panicked = nil
			time.AfterFunc(panicGrace, func() { m.ForceOff() })
		case <-forceOff:
			forceOff = nil
			retry, timeout = time.After(0), time.After(stopTimeout)
		case <-retry:
			retry = nil
			if powered != nil {
				retry = time.After(stopEvery)
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
			// The change of state says whether it stopped.
			stopped, retry = nil, time.After(stopEvery)
		case <-timeout:
			// Keep following: the framework still uses the machine's objects.
			timeout = nil
			m.abandon()
		}
		if hasEnded && powered == nil {
			m.finish(endErr)
			return
		}
	}
}

// move changes to the framework's state.
func (m *machine) move(s vz.VirtualMachineState) {
	to, known := states[s]
	if known && to != m.State() {
		m.Move(to, vm.Starting, vm.Running, vm.Pausing, vm.Paused, vm.Resuming, vm.Stopping)
	}
}

// frameworkError returns the error for a machine in the framework's error state.
func (m *machine) frameworkError() error {
	return explain("run machine", m.name, fmt.Errorf("the framework reports an error of the virtual machine; its console ends with:\n%s", m.serial.tail()))
}

// finish releases a machine that has ended with err.
func (m *machine) finish(err error) {
	m.Release()
	if report := m.serial.report(); report != "" {
		err = m.PanicError(report)
	}
	m.End(m.EndError(err))
}

// abandon gives up on a machine that the framework does not stop.
func (m *machine) abandon() {
	m.sockets.close()
	m.Abandon(fault.Newf(fault.Timeout, "kill machine", m.name, "the framework did not stop it within %v", stopTimeout).
		Advise("End its process com.apple.Virtualization.VirtualMachine in Activity Monitor."))
}
