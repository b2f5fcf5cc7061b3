//go:build !linux

package link

import (
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"osaurus-sandbox/internal/subnet"
)

// frameSize has room for a byte more than a frame, so that longer ones are seen.
const frameSize = subnet.MTU + header.EthernetMinimumSize + 1

// receiver reads one frame with a system call: macOS has no public call for several.
type receiver struct {
	buffer [frameSize]byte
	length int
}

func (r *receiver) init() {}

// receive returns the number of frames that it read.
func (r *receiver) receive(fd int) (int, error) {
	n, err := unix.Read(fd, r.buffer[:])
	if err != nil {
		return 0, err
	}
	r.length = n
	return 1, nil
}

// frame returns the last frame. One that was too long is empty.
func (r *receiver) frame(int) []byte {
	if r.length >= frameSize {
		return nil
	}
	return r.buffer[:r.length]
}

// sender writes one frame with a system call.
type sender struct{ parts [][]byte }

// send returns the number of packets that it sent.
func (s *sender) send(fd int, pkts []*stack.PacketBuffer) (int, error) {
	s.parts = append(s.parts[:0], pkts[0].AsSlices()...)
	_, err := unix.Writev(fd, s.parts)
	clear(s.parts) // the pool must not keep the packet alive
	if err != nil {
		return 0, err
	}
	return 1, nil
}
