package vz

import (
	"context"
	"os"
	"slices"
	"strings"
)

// rudeEnv names faults that the framework may commit and QEMU does not, with commas.
const rudeEnv = "VZ_STANDIN_RUDE"

const (
	// rudeMute leaves every other connection attempt without an answer until the machine
	// has stopped, and then answers that it succeeded. Apple's documentation of
	// connectToPort: "If the guest operating system doesn't listen for connections to the
	// specified port, this method does nothing." It does not order its answers and stops.
	// The driver bears maxMute such attempts at one machine, and more than twice that.
	rudeMute = "mute"
	// rudeDisconnect disconnects the NIC of a machine that runs, as
	// virtualMachine:networkDevice:attachmentWasDisconnectedWithError: of
	// VZVirtualMachineDelegate.h reports it.
	rudeDisconnect = "disconnect"
	// rudeError ends a running machine with an error, as virtualMachine:didStopWithError:
	// of VZVirtualMachineDelegate.h reports it. vz v3.7.1 gives only the state.
	rudeError = "error"
	// rudeStop fails to stop twice: the completion handler of VZVirtualMachine's stop
	// "returns an error object when the VM fails to stop".
	rudeStop = "stop"

	failedStops = 2
	maxMute     = 16
)

func rude(fault string) bool {
	return slices.Contains(strings.Split(os.Getenv(rudeEnv), ","), fault)
}

// beRude commits the faults of a machine that has begun to run.
func (v *VirtualMachine) beRude() {
	if rude(rudeDisconnect) && len(v.configuration.networks) > 0 {
		v.disconnected.In() <- &DisconnectedError{failure(ErrorNetworkError, "The network device attachment was disconnected."), v.configuration.networks[0]}
	}
	if rude(rudeError) {
		_ = v.qemu.Kill(context.Background())
	}
}

func (v *VirtualMachine) refusesStop() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stops++
	return rude(rudeStop) && v.stops <= failedStops
}

// mute reports whether to leave an attempt to connect without an answer. The first is one.
func (v *VirtioSocketDevice) mute() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.attempts++
	return rude(rudeMute) && v.attempts%2 == 1 && v.attempts < 2*maxMute
}

// lateSuccess waits until the machine has stopped and returns a connection to nobody.
func (v *VirtioSocketDevice) lateSuccess(port uint32) (*VirtioSocketConnection, error) {
	v.mu.Lock()
	machine := v.machine
	v.mu.Unlock()
	<-machine.Done()
	ours, fd, err := socketPair("vsock")
	if err != nil {
		return nil, err
	}
	ours.Close()
	raw, err := handOver(fd)
	return &VirtioSocketConnection{raw, port, 1}, err
}
