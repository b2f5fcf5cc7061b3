package vm

import (
	"context"
	"errors"
	"net"
	"strconv"

	"osaurus-sandbox/internal/fault"
)

// Ports is the part of a Machine that is about AF_VSOCK and the same for every
// driver: it says what the driver's device does in the words of Machine.
// Drivers embed one.
type Ports struct {
	life   *Life
	device PortDevice
}

// PortDevice is a driver's vsock device, as Machine describes it but for the
// kinds of its errors.
type PortDevice interface {
	Dial(ctx context.Context, port uint32) (net.Conn, error)
	Listen(port uint32) (net.Listener, error)
}

// NewPorts returns the ports of the machine that has this life.
func NewPorts(life *Life, device PortDevice) Ports { return Ports{life, device} }

// Dial implements Machine.
func (p Ports) Dial(ctx context.Context, port uint32) (net.Conn, error) {
	const op = "dial guest port"
	if p.life.Ended() {
		return nil, p.life.Misfit(op)
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
		return nil, p.life.Misfit(op)
	}
	l, err := p.device.Listen(port)
	if err != nil {
		return nil, fault.New(fault.Rejected, op, portName(port), err).Advise("Close the port's other listener first.")
	}
	return l, nil
}

func portName(port uint32) string { return strconv.FormatUint(uint64(port), 10) }
