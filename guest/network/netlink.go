//go:build linux

package network

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// message is a netlink message without its header, which send adds.
type message struct {
	kind, flags uint16
	body        []byte
}

var native = binary.NativeEndian

// attribute appends an attribute.
func (m *message) attribute(kind uint16, value []byte) {
	m.body = native.AppendUint16(m.body, uint16(unix.SizeofNlAttr+len(value)))
	m.body = native.AppendUint16(m.body, kind)
	m.body = append(m.body, value...)
	m.pad()
}

func (m *message) text(kind uint16, value string) { m.attribute(kind, append([]byte(value), 0)) }
func (m *message) number(kind uint16, value uint32) {
	m.attribute(kind, native.AppendUint32(nil, value))
}

// network appends a big-endian number, as nftables uses them.
func (m *message) network(kind uint16, value uint32) {
	m.attribute(kind, binary.BigEndian.AppendUint32(nil, value))
}

// nest appends an attribute with the attributes that fill appends.
func (m *message) nest(kind uint16, fill func()) {
	at := len(m.body)
	m.body = native.AppendUint16(m.body, 0)
	m.body = native.AppendUint16(m.body, kind|unix.NLA_F_NESTED)
	fill()
	native.PutUint16(m.body[at:], uint16(len(m.body)-at))
	m.pad()
}

func (m *message) pad() {
	for len(m.body)%unix.NLA_ALIGNTO != 0 {
		m.body = append(m.body, 0)
	}
}

// send sends messages of a netlink family in one batch, about the network namespace of the calling thread. It
// returns the first error that the kernel reports for those with NLM_F_ACK.
func send(family int, list ...message) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer unix.Close(fd)
	var out []byte
	answers := 0
	for i, m := range list {
		out = native.AppendUint32(out, uint32(unix.SizeofNlMsghdr+len(m.body)))
		out = native.AppendUint16(out, m.kind)
		out = native.AppendUint16(out, m.flags|unix.NLM_F_REQUEST)
		out = native.AppendUint32(out, uint32(i)) // sequence
		out = native.AppendUint32(out, 0)         // port, set by the kernel
		out = append(out, m.body...)
		if m.flags&unix.NLM_F_ACK != 0 {
			answers++
		}
	}
	if err := unix.Sendto(fd, out, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := make([]byte, 16<<10)
	for answers > 0 {
		size, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		for b := buf[:size]; len(b) >= unix.SizeofNlMsghdr+4; {
			length := int(native.Uint32(b))
			if length < unix.SizeofNlMsghdr || length > len(b) {
				break
			}
			if native.Uint16(b[4:]) == unix.NLMSG_ERROR {
				answers--
				if e := -int32(native.Uint32(b[unix.SizeofNlMsghdr:])); e != 0 {
					return unix.Errno(e)
				}
			}
			b = b[min(len(b), (length+3)&^3):]
		}
	}
	return nil
}
