package vm

import (
	"context"
	"errors"
	"net"
	"strconv"

	"osaurus-sandbox/internal/fault"
)

// Ports implements Dial and Listen of Machine on top of a driver's vsock device.
// Drivers embed one.
type Ports struct {
	life   *Life
	device PortDevice
}

// PortDevice is a driver's vsock device. Its methods do what Machine says, with errors
// of any kind.
type PortDevice interface {
	Dial(ctx context.Context, port uint32) (net.Conn, error)
	Listen(port uint32) (net.Listener, error)
}

// NewPorts returns the ports of a machine, which are closed when its life ends.
func NewPorts(life *Life, device PortDevice) Ports { return Ports{life, device} }

// Dial implements Machine.
func (p Ports) Dial(ctx context.Context, port uint32) (net.Conn, error) {
	const op = "dial guest port"
	if p.life.Ended() {
		return nil, p.life.StateError(op)
	}
	c, err := p.device.Dial(ctx, port)
	if err != nil {
		kind := fault.Unavailable
		if errors.Is(err, context.DeadlineExceeded) {
			kind = fault.Timeout
		}
		return nil, fault.New(kind, op, portName(port), err)
	}
	return c, nil
}

// Listen implements Machine.
func (p Ports) Listen(port uint32) (net.Listener, error) {
	const op = "listen on host port"
	if p.life.Ended() {
		return nil, p.life.StateError(op)
	}
	l, err := p.device.Listen(port)
	if err != nil {
		return nil, fault.New(fault.Rejected, op, portName(port), err).Advise("Close the port's other listener first.")
	}
	return l, nil
}

func portName(port uint32) string { return strconv.FormatUint(uint64(port), 10) }
