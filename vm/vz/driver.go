//go:build darwin || vzstandin

package vz

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/Code-Hex/vz/v3"

	"osaurus-sandbox/vm"
)

// Driver implements vm.Driver. The zero value is ready to use. A process has one machine: the NIC
// is the machine's, and connections and what vz leaks end with the process.
type Driver struct{}

var _ vm.Driver = (*Driver)(nil)

func (d *Driver) Capabilities(_ context.Context, arch vm.Arch) (vm.Capabilities, error) {
	return capabilities, checkHost(arch)
}

// capabilities is what every Mac supports.
var capabilities = vm.Capabilities{Accelerator: "apple", Ownership: []vm.Ownership{vm.OwnershipAsker}}

func (d *Driver) New(_ context.Context, cfg vm.Config) (vm.Machine, error) {
	if err := cmp.Or(cfg.Validate(capabilities), checkHost(cfg.Arch)); err != nil {
		return nil, err
	}
	line, err := newSerial(cfg.ConsoleLog)
	if err != nil {
		return nil, err
	}
	m, err := newMachine(&cfg, line)
	if err != nil {
		line.close()
		return nil, err
	}
	return m, nil
}

// newMachine makes the framework's machine. It validates the configuration first,
// because the framework throws an exception on a bad one, which ends the process.
func newMachine(cfg *vm.Config, line *serial) (*machine, error) {
	const op = "make machine"
	if err := giveDuplicates(); err != nil {
		return nil, explain(op, cfg.Name, err)
	}
	hardware, err := assemble(cfg, line)
	if err != nil {
		return nil, err
	}
	if ok, err := hardware.Validate(); err != nil {
		return nil, explain(op, cfg.Name, err)
	} else if !ok {
		return nil, explain(op, cfg.Name, errors.New("the framework rejects the configuration without a reason"))
	}
	apple, err := vz.NewVirtualMachine(hardware)
	if err != nil {
		return nil, explain(op, cfg.Name, err)
	}
	sockets := apple.SocketDevices()
	if len(sockets) != 1 {
		return nil, explain(op, cfg.Name, fmt.Errorf("%d vsock devices", len(sockets)))
	}
	disconnects, err := apple.NetworkDeviceAttachmentWasDisconnected()
	if err != nil {
		return nil, explain(op, cfg.Name, err)
	}
	m := &machine{
		name: cfg.Name, apple: apple, hardware: hardware, serial: line, nic: cfg.NIC, disconnects: disconnects,
		sockets: newSwitchboard(sockets[0]), gone: make(chan struct{}),
	}
	m.Base = vm.NewBase(cfg.Name, m, m.sockets, "End its process com.apple.Virtualization.VirtualMachine in Activity Monitor.")
	return m, nil
}
