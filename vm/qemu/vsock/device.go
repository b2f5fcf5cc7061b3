//go:build linux

package vsock

import (
	"container/list"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu/vhostuser"
)

const (
	rxQueue = 0 // device to driver
	txQueue = 1 // driver to device
	// The third queue (events, only for migration) is served by QEMU itself.
	queues = 2

	// maxConns bounds the open connections, separately for those made by guest and host, so that a
	// guest cannot keep the host from dialling. At the limit a guest's request is reset and a dial
	// fails with ENOBUFS. Their first windows add up to at most 64 MiB.
	maxConns = 4096
	// firstWindow is the receive window of a new connection. While the connection is read, it grows to
	// the guest's own, at most to lastWindow.
	firstWindow = 16 << 10
	lastWindow  = 2 << 20
	// maxGrown bounds the memory of all windows beyond firstWindow. At the limit windows stop
	// growing.
	maxGrown = 64 << 20

	// backlog is how many connections a listener queues for Accept: enough for a guest that starts
	// all its programs at once. At the limit a guest's request is reset.
	backlog = 1024
	// maxStray bounds the queued resets that belong to no connection. Further ones are dropped, so
	// that the guest's connection attempts time out.
	maxStray = 4096
	// maxPayload is the largest packet, either way: as in Linux.
	maxPayload = 64 << 10
	// batch is how many guest packets are handled before answers are sent, to save interrupts.
	batch = 32
)

// origin is the side that opened a connection.
type origin uint8

const (
	fromHost origin = iota
	fromGuest
	origins
)

// key identifies a connection. There is one guest, so two ports are enough.
type key struct{ host, guest uint32 }

// Device is one guest's vsock device. It implements [vhostuser.Device].
type Device struct {
	cid   uint32
	grown atomic.Int64 // total of all windows beyond firstWindow

	mu        sync.Mutex
	closed    bool
	conns     map[key]*Conn
	placed    [origins]map[*Conn]struct{} // connections that are not released
	listeners map[uint32]*vm.Listener
	ready     list.List // connections that have something to send
	stray     []header  // resets that belong to no connection
	nextPort  uint32
	rx        *vhostuser.Queue

	pumping atomic.Int32
}

var _ vhostuser.Device = (*Device)(nil)

// New returns a device for the guest with the given context id (3 or more).
func New(guestCID uint32) *Device {
	d := &Device{cid: guestCID, conns: map[key]*Conn{}, listeners: map[uint32]*vm.Listener{}, nextPort: firstPort}
	for o := range d.placed {
		d.placed[o] = map[*Conn]struct{}{}
	}
	return d
}

func (d *Device) Queues() int { return queues }

// Config implements vhostuser.Device: struct virtio_vsock_config.
func (d *Device) Config() []byte { return le.AppendUint64(nil, uint64(d.cid)) }

// Reset implements vhostuser.Device. It ends all connections, since a new kernel does not know
// them. Dials that were not sent yet wait for the new kernel.
func (d *Device) Reset() {
	d.mu.Lock()
	d.rx, d.stray = nil, nil
	d.mu.Unlock()
	d.Break()
}

func (d *Device) Break() {
	d.failAll(func(c *Conn) error {
		if c.need&needRequest != 0 {
			return nil // a dial that was not sent yet
		}
		return syscall.ECONNRESET
	})
}

// Close closes the device. All connections are reset; dials and listeners fail with net.ErrClosed.
func (d *Device) Close() error {
	d.mu.Lock()
	d.closed = true
	listeners := slices.Collect(maps.Values(d.listeners))
	d.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
	d.failAll(func(c *Conn) error {
		if c.state == stateDialing {
			return net.ErrClosed
		}
		return syscall.ECONNRESET
	})
	return nil
}

// failAll ends connections without telling the guest, with the error that why returns. It keeps
// those for which that is nil.
func (d *Device) failAll(why func(*Conn) error) {
	d.mu.Lock()
	var all []*Conn
	for _, placed := range d.placed {
		all = slices.AppendSeq(all, maps.Keys(placed))
	}
	d.mu.Unlock()
	for _, c := range all {
		c.mu.Lock()
		if err := why(c); err != nil {
			c.failLocked(err)
		}
		c.unlock()
	}
}

func (d *Device) HandleQueue(q *vhostuser.Queue) {
	if q.Index == txQueue {
		d.receive(q)
		return
	}
	d.mu.Lock()
	d.rx = q
	d.mu.Unlock()
	d.pump()
}

// receive handles all packets from the guest.
func (d *Device) receive(q *vhostuser.Queue) {
	for n := 1; ; n++ {
		c, ok := q.Pop()
		if !ok {
			break
		}
		d.packet(c)
		q.Push(c, 0)
		if n%batch == 0 {
			q.NotifyLater()
			d.pump()
		}
	}
	d.pump()
	q.NotifyLater() // not urgent: returns buffers only
}

// packet handles one packet from the guest.
func (d *Device) packet(c *vhostuser.Chain) {
	var h header
	data := iov(c.Out)
	if data.read(h.bytes()) < headerLen {
		return
	}
	if h.srcCID != uint64(d.cid) || h.dstCID != hostCID {
		return
	}
	if h.typ != typeStream || h.len > maxPayload || int(h.len) > c.OutLen-headerLen {
		d.refuse(&h)
		return
	}
	d.mu.Lock()
	conn := d.conns[key{h.dstPort, h.srcPort}]
	d.mu.Unlock()
	if h.op == opRequest && (conn == nil || conn.giveWay()) {
		d.accept(&h)
		return
	}
	if conn == nil {
		d.refuse(&h)
		return
	}
	conn.packet(&h, data)
}

// refuse answers a packet that belongs to no connection with a reset.
func (d *Device) refuse(h *header) {
	if h.op == opRST {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.stray) == maxStray {
		return
	}
	d.stray = append(d.stray, header{srcCID: h.dstCID, dstCID: h.srcCID, srcPort: h.dstPort, dstPort: h.srcPort, typ: h.typ, op: opRST})
}

// full returns an error if there may be no more connections of an origin. The caller holds d.mu.
func (d *Device) full(o origin) error {
	switch {
	case d.closed:
		return net.ErrClosed
	case len(d.placed[o]) >= maxConns:
		return syscall.ENOBUFS
	}
	return nil
}

// add registers a new connection. The caller holds d.mu.
func (d *Device) add(c *Conn) {
	d.placed[c.origin][c] = struct{}{}
	d.conns[c.key] = c
}

// forget removes a dead connection from the table.
func (d *Device) forget(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns[c.key] == c {
		delete(d.conns, c.key)
	}
}

// release frees the slot of a closed and dead connection. The slot is kept until the guest has read
// the reset, so a guest that reads nothing runs out of slots.
func (d *Device) release(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.placed[c.origin], c)
	d.dequeue(c)
}

// grow reserves memory to widen a window, or returns false at the limit.
func (d *Device) grow(by int) bool {
	if d.grown.Add(int64(by)) > maxGrown {
		d.grown.Add(-int64(by))
		return false
	}
	return true
}
