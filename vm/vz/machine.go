//go:build darwin || vzstandin

package vz

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Code-Hex/vz/v3"

	"osaurus-sandbox/vm"
)

const (
	// panicGrace is how long a kernel has to print its panic report before its
	// machine is ended.
	panicGrace = time.Second
	// stopEvery is the pause between attempts to stop a machine: the framework
	// refuses while the machine changes state.
	stopEvery = 100 * time.Millisecond
)

// machine implements vm.Machine.
type machine struct {
	*vm.Base
	name     string
	apple    *vz.VirtualMachine
	hardware *vz.VirtualMachineConfiguration
	serial   *serial
	nic      *os.File // or nil; vz only stores its number, so it is kept from being collected
	sockets  *switchboard

	disconnects <-chan *vz.DisconnectedError // of the NIC

	powered  atomic.Bool // the framework has started it
	forceOff sync.Once
	gone     chan struct{} // closed when it has ended
}

var _ vm.Machine = (*machine)(nil)

func (m *machine) Start(ctx context.Context) error {
	return m.Run(ctx, func() error {
		powered := make(chan error, 1)
		go func() { powered <- m.apple.Start() }()
		go m.follow(powered)
		return nil
	})
}

// follow tracks a started machine until its end. It is the only reader of the
// framework's channels, which are never closed. It keeps the machine reachable,
// so that the objects that the framework uses are not collected.
func (m *machine) follow(powered <-chan error) {
	changes, panicked := m.apple.StateChangedNotify(), m.serial.console.Panicked()
	var endErr error
	for ended := false; !ended || powered != nil; {
		select {
		case err := <-powered:
			powered = nil
			m.powered.Store(true)
			if err != nil {
				ended, endErr = true, explain("start machine", m.name, err)
			}
		case s := <-changes:
			switch s {
			case vz.VirtualMachineStateRunning:
				m.Started()
			case vz.VirtualMachineStateStopped:
				ended = true
			case vz.VirtualMachineStateError:
				ended = true
				endErr = explain("run machine", m.name, fmt.Errorf("the framework reports an error of the virtual machine; its console ends with:\n%s", m.serial.console.Tail()))
			}
		case d := <-m.disconnects:
			m.disconnected(d.Err)
		case <-panicked:
			panicked = nil
			time.AfterFunc(panicGrace, func() { m.Fail(m.PanicError(m.serial.console.Panic())) })
		}
	}
	close(m.gone)
	m.End(func() error { return endErr })
}

// disconnected reports that the framework has disconnected the NIC. vz cannot connect it
// again while the machine runs.
func (m *machine) disconnected(err error) {
	text := fmt.Sprintf("macOS has disconnected the network device: %v. Restart the sandbox: the guest has no network until then.", err)
	m.Warn(text)
	_, _ = fmt.Fprintf(m.serial.console, "\nosaurus-sandbox: %s\n", text)
}

func (m *machine) ForceOff() bool {
	m.forceOff.Do(func() { go m.stop() })
	return true
}

// stop stops the machine. It tries again until the machine has ended.
func (m *machine) stop() {
	for {
		if m.powered.Load() && m.apple.CanStop() {
			_ = m.apple.Stop() // the change of state says whether it stopped
		}
		select {
		case <-m.gone:
			return
		case <-time.After(stopEvery):
		}
	}
}

func (m *machine) Release() {
	_ = m.sockets.Close()
	m.serial.close()
}

func (m *machine) PressButton(context.Context) error {
	if _, err := m.apple.RequestStop(); err != nil {
		return explain("", "", err)
	}
	return nil
}
