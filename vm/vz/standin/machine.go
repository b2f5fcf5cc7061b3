package vz

import (
	"context"
	"slices"
	"sync"

	infinity "github.com/Code-Hex/go-infinity-channel"
)

type VirtualMachineState int

const (
	VirtualMachineStateStopped VirtualMachineState = iota
	VirtualMachineStateRunning
	VirtualMachineStatePaused
	VirtualMachineStateError
	VirtualMachineStateStarting
	VirtualMachineStatePausing
	VirtualMachineStateResuming
	VirtualMachineStateStopping
	VirtualMachineStateSaving
	VirtualMachineStateRestoring
)

type VirtualMachine struct {
	*pointer
	configuration *VirtualMachineConfiguration
	socket        *VirtioSocketDevice // nil if there is none
	// Like in the real one, each channel has a goroutine that never ends.
	notify *infinity.Channel[VirtualMachineState]
	// The last two are for disconnections.
	disconnected *infinity.Channel[*DisconnectedError]

	mu    sync.Mutex
	state VirtualMachineState
	qemu  *hypervisor
	stops int // attempts to stop it
}

// NewVirtualMachine ends the process if the configuration is not valid.
func NewVirtualMachine(config *VirtualMachineConfiguration) (*VirtualMachine, error) {
	if ok, err := config.Validate(); !ok {
		raise("%v", err)
	}
	v := &VirtualMachine{configuration: config, notify: infinity.NewChannel[VirtualMachineState]()}
	infinity.NewChannel[error]()
	v.disconnected = infinity.NewChannel[*DisconnectedError]()
	if len(config.sockets) > 0 {
		v.socket = &VirtioSocketDevice{listeners: map[uint32]*VirtioSocketListener{}}
	}
	return v, nil
}

// NetworkDeviceAttachmentWasDisconnected gives one channel to all callers.
func (v *VirtualMachine) NetworkDeviceAttachmentWasDisconnected() (<-chan *DisconnectedError, error) {
	return v.disconnected.Out(), nil
}

type DisconnectedError struct {
	Err    error
	Config *VirtioNetworkDeviceConfiguration
}

func (e *DisconnectedError) Unwrap() error { return e.Err }
func (e *DisconnectedError) Error() string { return e.Err.Error() }

type virtualMachineStartOptions struct{}

type VirtualMachineStartOption func(*virtualMachineStartOptions) error

// change changes the state if it is in from, and notifies the reader.
func (v *VirtualMachine) change(to VirtualMachineState, from ...VirtualMachineState) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !slices.Contains(from, v.state) {
		return failure(ErrorInvalidVirtualMachineStateTransition, "Invalid virtual machine state transition. Transition from state %d to state %d is invalid.", v.state, to)
	}
	v.state = to
	v.notify.In() <- to
	return nil
}

func (v *VirtualMachine) State() VirtualMachineState {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state
}

func (v *VirtualMachine) StateChangedNotify() <-chan VirtualMachineState { return v.notify.Out() }

func (v *VirtualMachine) is(states ...VirtualMachineState) bool {
	return slices.Contains(states, v.State())
}

func (v *VirtualMachine) CanStart() bool {
	return v.is(VirtualMachineStateStopped, VirtualMachineStateError)
}
func (v *VirtualMachine) CanRequestStop() bool { return v.is(VirtualMachineStateRunning) }
func (v *VirtualMachine) CanStop() bool        { return v.is(VirtualMachineStateRunning) }

// Start starts QEMU. Like the framework, it gives no reason if that fails.
func (v *VirtualMachine) Start(opts ...VirtualMachineStartOption) error {
	if err := v.change(VirtualMachineStateStarting, VirtualMachineStateStopped, VirtualMachineStateError); err != nil {
		return err
	}
	q, err := power(v.configuration, v.socket)
	if err != nil {
		_ = v.change(VirtualMachineStateError, VirtualMachineStateStarting)
		return err
	}
	v.mu.Lock()
	v.qemu = q
	v.mu.Unlock()
	_ = v.change(VirtualMachineStateRunning, VirtualMachineStateStarting)
	go v.beRude()
	go func() {
		end := VirtualMachineStateStopped
		if ok := q.wait(); !ok || rude(rudeError) {
			end = VirtualMachineStateError
		}
		_ = v.change(end, VirtualMachineStateRunning, VirtualMachineStateStopping)
	}()
	return nil
}

func (v *VirtualMachine) RequestStop() (bool, error) {
	if !v.CanRequestStop() {
		return false, failure(ErrorInvalidVirtualMachineState, "Invalid virtual machine state. The virtual machine is not running.")
	}
	err := v.qemu.RequestStop(context.Background())
	return err == nil, err
}

func (v *VirtualMachine) Stop() error {
	if v.refusesStop() {
		return failure(ErrorInternal, "Internal Virtualization error. The virtual machine failed to stop.")
	}
	if err := v.change(VirtualMachineStateStopping, VirtualMachineStateRunning); err != nil {
		return err
	}
	return v.qemu.Kill(context.Background())
}

func (v *VirtualMachine) SocketDevices() []*VirtioSocketDevice {
	if v.socket == nil {
		return nil
	}
	return []*VirtioSocketDevice{v.socket}
}
