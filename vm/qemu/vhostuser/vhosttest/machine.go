//go:build linux

// Package vhosttest is the front end for tests of vhost-user devices: QEMU's side of the protocol and a driver's side of virtqueues.
package vhosttest

import (
	"encoding/binary"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Requests of the protocol.
const (
	GetFeatures         = 1
	SetFeatures         = 2
	SetMemTable         = 5
	SetVringNum         = 8
	SetVringAddr        = 9
	SetVringBase        = 10
	GetVringBase        = 11
	SetVringKick        = 12
	SetVringCall        = 13
	SetVringErr         = 14
	SetProtocolFeatures = 16
	SetVringEnable      = 18
)

// Feature bits.
const (
	Indirect         = 1 << 28
	EventIdx         = 1 << 29
	protocolFeatures = 1 << 30
	version1         = 1 << 32

	replyAck = 1 << 3 // a protocol feature
)

const (
	// Base is the guest-physical address of the machine's memory.
	Base = 0x100000
	// User is its address in QEMU's address space.
	User = 0x7f0000000000

	headerSize = 12
	version    = 1
	needReply  = 8

	// patience is how long a test waits for an answer.
	patience = 30 * time.Second
)

var le = binary.LittleEndian

// Machine is a front end with memory.
type Machine struct {
	Back  *net.UnixConn // the back end's end of the connection
	Front *net.UnixConn
	Mem   []byte
	MemFD int

	t testing.TB
}

// New returns a machine with size bytes of memory, which ends with the test.
func New(t testing.TB, size int) *Machine {
	t.Helper()
	m := &Machine{t: t}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for fd, c := range map[int]**net.UnixConn{fds[0]: &m.Front, fds[1]: &m.Back} {
		f := os.NewFile(uintptr(fd), "vhost-user")
		conn, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		*c = conn.(*net.UnixConn)
	}
	if m.MemFD, err = unix.MemfdCreate("guest", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(m.MemFD, int64(size)); err != nil {
		t.Fatal(err)
	}
	if m.Mem, err = unix.Mmap(m.MemFD, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Front.Close()
		m.Back.Close()
		unix.Close(m.MemFD)
		_ = unix.Munmap(m.Mem)
	})
	return m
}

// Seal seals the memory against shrinking, as back ends require.
func (m *Machine) Seal() {
	m.t.Helper()
	if _, err := unix.FcntlInt(uintptr(m.MemFD), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		m.t.Fatal(err)
	}
}

// Send sends a request. It ignores errors, since the other side may have hung up.
func (m *Machine) Send(req uint32, payload []byte, fds ...int) {
	b := le.AppendUint32(nil, req)
	b = le.AppendUint32(b, version|needReply)
	b = append(le.AppendUint32(b, uint32(len(payload))), payload...)
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_ = m.Front.SetWriteDeadline(time.Now().Add(patience))
	_, _, _ = m.Front.WriteMsgUnix(b, oob, nil)
}

// Ask sends a request and returns the payload of its reply.
func (m *Machine) Ask(req uint32, payload []byte, fds ...int) []byte {
	m.t.Helper()
	m.Send(req, payload, fds...)
	b := make([]byte, 512)
	_ = m.Front.SetReadDeadline(time.Now().Add(patience))
	n, err := m.Front.Read(b)
	if err != nil || n < headerSize {
		m.t.Fatalf("request %d: reply of %d bytes, %v", req, n, err)
	}
	return b[headerSize:n]
}

// Refused reports whether the back end refused a request.
func (m *Machine) Refused(req uint32, payload []byte, fds ...int) bool {
	m.t.Helper()
	return le.Uint64(m.Ask(req, payload, fds...)) != 0
}

// Must sends a request and fails the test if the back end refuses it.
func (m *Machine) Must(req uint32, payload []byte, fds ...int) {
	m.t.Helper()
	if m.Refused(req, payload, fds...) {
		m.t.Fatalf("request %d was refused", req)
	}
}

// Negotiate negotiates features, with replies to all requests.
func (m *Machine) Negotiate(features uint64) {
	m.t.Helper()
	m.Must(SetProtocolFeatures, U64(replyAck))
	m.Must(SetFeatures, U64(version1|protocolFeatures|features))
}

// Share shares the memory with the back end, in one region.
func (m *Machine) Share() {
	m.t.Helper()
	m.Seal()
	m.Must(SetMemTable, MemTable(Region{Base, uint64(len(m.Mem)), User, 0}), m.MemFD)
}

// Region is a piece of memory: its guest-physical address, size, address in
// QEMU and offset in its file.
type Region struct{ Guest, Size, User, Offset uint64 }

// MemTable is the payload of SetMemTable.
func MemTable(regions ...Region) []byte {
	b := U64(uint64(len(regions)))
	for _, r := range regions {
		for _, v := range []uint64{r.Guest, r.Size, r.User, r.Offset} {
			b = le.AppendUint64(b, v)
		}
	}
	return b
}

// U64 is the payload of a request with one number.
func U64(v uint64) []byte { return le.AppendUint64(nil, v) }

// State is the payload of a request with a ring's index and a number.
func State(index, v uint32) []byte { return le.AppendUint32(le.AppendUint32(nil, index), v) }
