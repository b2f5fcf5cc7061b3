//go:build linux

package network

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"
)

var mac = net.HardwareAddr{2, 0, 0, 0, 0, 1}

// answer returns a server's answer.
func answer(a ask, kind byte, options ...byte) []byte {
	b := append([]byte(nil), a.bytes()[:headerSize]...)
	b[0] = opReply
	copy(b[16:], []byte{10, 0, 2, 15})
	b = append(b, optType, 1, kind)
	return append(append(b, options...), optEnd)
}

func TestParse(t *testing.T) {
	q := ask{kind: discover, xid: 7, mac: mac, hostname: "box"}
	full := []byte{optMask, 4, 255, 255, 255, 0, optPad, optRouter, 8, 10, 0, 2, 2, 10, 0, 2, 9, optDNS, 16, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, optServer, 4, 10, 0, 2, 2, optLease, 4, 0, 1, 0x51, 0x80}
	m, err := parse(answer(q, ack, full...), 7, mac)
	if err != nil || m.kind != ack || m.server != netip.MustParseAddr("10.0.2.2") {
		t.Fatalf("%+v %v", m, err)
	}
	l, err := m.asLease()
	if err != nil || l.Address.String() != "10.0.2.15/24" || l.Gateway.String() != "10.0.2.2" || len(l.DNS) != maxDNS || l.duration != 24*time.Hour {
		t.Errorf("%+v %v", l, err)
	}
	for name, b := range map[string][]byte{
		"empty": {}, "cut": answer(q, ack)[:100], "question": q.bytes(),
		"other xid":   answer(ask{xid: 8, mac: mac}, ack),
		"other mac":   answer(ask{xid: 7, mac: net.HardwareAddr{2, 0, 0, 0, 0, 2}}, ack),
		"cut option":  append(answer(q, ack)[:headerSize], optMask, 4, 255),
		"bare option": append(answer(q, ack)[:headerSize], optMask),
		"odd mask":    answer(q, ack, optMask, 3, 255, 255, 255),
		"odd DNS":     answer(q, ack, optDNS, 5, 1, 1, 1, 1, 1),
		"no router":   answer(q, ack, optRouter, 0),
	} {
		if m, err := parse(b, 7, mac); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
	for name, options := range map[string][]byte{"holes": {optMask, 4, 255, 0, 255, 0}, "nothing": {optMask, 4, 0, 0, 0, 0}} {
		if m, err := parse(answer(q, ack, options...), 7, mac); err != nil {
			t.Error(name, err)
		} else if l, err := m.asLease(); err == nil {
			t.Errorf("mask with %s: %+v", name, l)
		}
	}
}

func TestAsk(t *testing.T) {
	b := ask{kind: request, xid: 9, mac: mac, hostname: "box", address: netip.MustParseAddr("10.0.2.15"), server: netip.MustParseAddr("10.0.2.2")}.bytes()
	if binary.BigEndian.Uint32(b[4:]) != 9 || b[0] != opRequest || b[len(b)-1] != optEnd {
		t.Errorf("% x", b)
	}
	got := map[byte]string{}
	for o := b[headerSize:]; o[0] != optEnd; o = o[2+int(o[1]):] {
		got[o[0]] = string(o[2 : 2+int(o[1])])
	}
	if got[optType] != "\x03" || got[optAddress] != "\x0a\x00\x02\x0f" || got[optServer] != "\x0a\x00\x02\x02" || got[optHostname] != "box" {
		t.Errorf("%q", got)
	}
}

func FuzzParse(f *testing.F) {
	q := ask{kind: discover, xid: 7, mac: mac}
	f.Add(answer(q, offer, optMask, 4, 255, 255, 255, 0))
	f.Add(answer(q, ack, optDNS, 8, 1, 1, 1, 1, 2, 2, 2, 2, optLease, 4, 0, 0, 0, 1))
	f.Add(q.bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b, 7, mac)
		if err != nil {
			return
		}
		if len(m.dns) > maxDNS {
			t.Fatal("too many name servers")
		}
		if l, err := m.asLease(); err == nil && (!l.Address.IsValid() || l.duration < minLease) {
			t.Fatalf("%+v", l)
		}
	})
}
