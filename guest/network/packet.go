//go:build linux

package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Parts of RFC 2131 and 2132 that a client with one interface needs.
const (
	headerSize = 240 // including the magic cookie
	magic      = 0x63825363

	opRequest, opReply = 1, 2
	ethernet           = 1
	broadcastFlag      = 0x8000 // ask for a broadcast answer: we have no address yet

	optPad, optEnd                      = 0, 255
	optMask, optRouter, optDNS          = 1, 3, 6
	optHostname, optAddress, optLease   = 12, 50, 51
	optType, optServer, optParams       = 53, 54, 55
	discover, offer, request, ack, nack = 1, 2, 3, 5, 6

	maxDNS = 3 // libc's resolver uses three
)

// reply is a message from a server.
type reply struct {
	kind    byte
	address netip.Addr // offered to us
	mask    net.IPMask
	router  netip.Addr // may be invalid: none
	dns     []netip.Addr
	server  netip.Addr
	lease   time.Duration
}

// ask is a message from the client.
type ask struct {
	kind     byte
	xid      uint32
	mac      net.HardwareAddr
	hostname string
	address  netip.Addr // requested; invalid for any
	server   netip.Addr // chosen; invalid for any
}

func (a ask) bytes() []byte {
	b := make([]byte, headerSize, 576) // size that every server must accept
	b[0], b[1], b[2] = opRequest, ethernet, byte(len(a.mac))
	binary.BigEndian.PutUint32(b[4:], a.xid)
	binary.BigEndian.PutUint16(b[10:], broadcastFlag)
	copy(b[28:44], a.mac)
	binary.BigEndian.PutUint32(b[236:], magic)
	add := func(code byte, value []byte) {
		b = append(append(b, code, byte(len(value))), value...)
	}
	add(optType, []byte{a.kind})
	if a.address.Is4() {
		add(optAddress, a.address.AsSlice())
	}
	if a.server.Is4() {
		add(optServer, a.server.AsSlice())
	}
	if a.hostname != "" {
		add(optHostname, []byte(a.hostname)) // at most 64 bytes, checked at boot
	}
	add(optParams, []byte{optMask, optRouter, optDNS, optLease})
	return append(b, optEnd)
}

// parse parses a server's answer to request xid of mac. It rejects truncated and malformed packets,
// and answers to other clients.
func parse(b []byte, xid uint32, mac net.HardwareAddr) (reply, error) {
	var m reply
	if len(b) < headerSize {
		return m, errors.New("shorter than a header")
	}
	switch {
	case b[0] != opReply || binary.BigEndian.Uint32(b[236:]) != magic:
		return m, errors.New("not a DHCP answer")
	case binary.BigEndian.Uint32(b[4:]) != xid || string(b[28:28+len(mac)]) != string(mac):
		return m, errors.New("answer to another client")
	}
	m.address = netip.AddrFrom4([4]byte(b[16:20]))
	for o := b[headerSize:]; len(o) > 0 && o[0] != optEnd; {
		if o[0] == optPad {
			o = o[1:]
			continue
		}
		if len(o) < 2 || len(o) < 2+int(o[1]) {
			return m, errors.New("truncated option")
		}
		if err := m.take(o[0], o[2:2+int(o[1])]); err != nil {
			return m, err
		}
		o = o[2+int(o[1]):]
	}
	return m, nil
}

func (m *reply) take(code byte, v []byte) error {
	odd := func() error { return fmt.Errorf("option %d has %d bytes", code, len(v)) }
	switch code {
	case optType:
		if len(v) != 1 {
			return odd()
		}
		m.kind = v[0]
	case optMask, optServer, optLease:
		if len(v) != 4 {
			return odd()
		}
		switch code {
		case optMask:
			m.mask = net.IPMask([]byte{v[0], v[1], v[2], v[3]})
		case optServer:
			m.server = netip.AddrFrom4([4]byte(v))
		case optLease:
			m.lease = time.Duration(binary.BigEndian.Uint32(v)) * time.Second
		}
	case optRouter, optDNS:
		if len(v) == 0 || len(v)%4 != 0 {
			return odd()
		}
		if code == optRouter {
			m.router = netip.AddrFrom4([4]byte(v[:4]))
			return nil
		}
		for ; len(v) > 0 && len(m.dns) < maxDNS; v = v[4:] {
			m.dns = append(m.dns, netip.AddrFrom4([4]byte(v[:4])))
		}
	}
	return nil
}

// asLease returns the lease in an acknowledgement.
func (m reply) asLease() (lease, error) {
	ones, bits := m.mask.Size()
	if m.mask == nil {
		ones, bits = 24, 32 // a server may omit the mask
	}
	if bits != 32 || ones == 0 || !m.address.Is4() || !m.address.IsValid() || m.address.IsUnspecified() || m.address.IsMulticast() || m.address.IsLoopback() {
		return lease{}, fmt.Errorf("the server gave %v with mask %v", m.address, m.mask)
	}
	d := m.lease
	if d < minLease {
		d = minLease
	}
	return lease{Settings: Settings{Address: netip.PrefixFrom(m.address, ones), Gateway: m.router, DNS: m.dns}, duration: d}, nil
}
