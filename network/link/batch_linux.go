package link

import (
	"unsafe"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"osaurus-sandbox/internal/subnet"
)

// frameSize has room for a byte more than a frame, so that longer ones are seen.
const frameSize = subnet.MTU + header.EthernetMinimumSize + 1

// mmsghdr is the kernel's struct mmsghdr.
type mmsghdr struct {
	header unix.Msghdr
	length uint32
	_      [4]byte
}

// receiver reads many frames with one system call.
type receiver struct {
	frames  [batchSize][frameSize]byte
	vectors [batchSize]unix.Iovec
	headers [batchSize]mmsghdr
}

func (r *receiver) init() {
	for i := range r.frames {
		r.vectors[i].Base = &r.frames[i][0]
		r.vectors[i].SetLen(frameSize)
		r.headers[i].header.Iov = &r.vectors[i]
		r.headers[i].header.SetIovlen(1)
	}
}

// receive returns the number of frames that it read.
func (r *receiver) receive(fd int) (int, error) {
	n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.headers[0])),
		batchSize, unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// frame returns a frame of the last batch. One that was too long is empty.
func (r *receiver) frame(i int) []byte {
	if r.headers[i].length >= frameSize {
		return nil
	}
	return r.frames[i][:r.headers[i].length]
}

// sender writes many frames with one system call.
type sender struct {
	headers [batchSize]mmsghdr
	vectors []unix.Iovec
	ends    [batchSize]int
}

// send returns the number of packets that it sent.
func (s *sender) send(fd int, pkts []*stack.PacketBuffer) (int, error) {
	pkts = pkts[:min(len(pkts), batchSize)]
	s.vectors = s.vectors[:0]
	for i, pkt := range pkts {
		for _, part := range pkt.AsSlices() {
			if len(part) > 0 {
				v := unix.Iovec{Base: &part[0]}
				v.SetLen(len(part))
				s.vectors = append(s.vectors, v)
			}
		}
		s.ends[i] = len(s.vectors)
	}
	start := 0 // only now: append may have moved the vectors
	for i, end := range s.ends[:len(pkts)] {
		s.headers[i].header = unix.Msghdr{Iov: &s.vectors[start]}
		s.headers[i].header.SetIovlen(end - start)
		start = end
	}
	n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&s.headers[0])),
		uintptr(len(pkts)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	clear(s.vectors) // the pool must not keep the packets alive
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
