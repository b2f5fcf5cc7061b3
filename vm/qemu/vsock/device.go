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

	"osaurus-sandbox/vm/qemu/vhostuser"
)

const (
	rxQueue = 0 // device to driver
	txQueue = 1 // driver to device
	// The third queue (events, only for migration) is served by QEMU itself.
	queues = 2

	// maxConns bounds the connections that exist at once, separately for
	// each side that makes them, so that a guest which fills its share does
	// not keep the host from dialling. At the limit a guest's request is
	// answered with a reset and a dial fails with ENOBUFS. Thousands of
	// connections are in order, and these make at most 64 MiB of first windows.
	maxConns = 4096
	// firstWindow is what a guest may send on a connection that nobody has
	// read from yet, lastWindow on one that is being read (as in Linux).
	firstWindow = 16 << 10
	lastWindow  = 256 << 10
	// maxGrown bounds the sum of all windows beyond the first ones. At the
	// limit windows stay as they are: slower, but whole.
	maxGrown = 64 << 20

	// backlog is how many connections a listener holds until Accept. At the
	// limit a guest's request is answered with a reset. It takes the burst
	// of a guest that starts its programs all at once.
	backlog = 1024
	// maxStray is how many resets that belong to no connection may wait for
	// the guest to take them. At the limit nothing more is taken from it.
	maxStray = 256
	// maxPayload is the largest packet, either way: as in Linux.
	maxPayload = 64 << 10
	// batch is how many packets of the guest are handled before answers go
	// out: enough to answer many with one interrupt.
	batch = 32
)

// origin is the side that makes a connection.
type origin uint8

const (
	fromHost origin = iota
	fromGuest
	origins
)

// key identifies a connection: there is one guest, so two ports do.
type key struct{ host, guest uint32 }

// Device is one guest's vsock device. It implements [vhostuser.Device].
type Device struct {
	cid    uint32
	chunks *chunkPool
	grown  atomic.Int64 // the sum of all windows beyond the first ones

	mu        sync.Mutex
	closed    bool
	conns     map[key]*Conn
	placed    [origins]map[*Conn]struct{} // what is not yet both closed and gone from the wire
	listeners map[uint32]*Listener
	ready     list.List // connections that have something to send
	stray     []header  // resets that belong to no connection
	nextPort  uint32
	rx, tx    *vhostuser.Queue
	txPaused  bool // because stray is full

	pumping atomic.Int32
}

var (
	_ vhostuser.Device  = (*Device)(nil)
	_ vhostuser.Breaker = (*Device)(nil)
)

// New makes a device for the guest with the given context id (3 or more).
func New(guestCID uint32) *Device {
	d := &Device{cid: guestCID, chunks: newChunkPool(), conns: map[key]*Conn{}, listeners: map[uint32]*Listener{}, nextPort: firstPort}
	for o := range d.placed {
		d.placed[o] = map[*Conn]struct{}{}
	}
	return d
}

// Features implements vhostuser.Device. Without a feature bit the device has
// stream sockets only.
func (d *Device) Features() uint64 { return 0 }

func (d *Device) Queues() int { return queues }

// Config implements vhostuser.Device: struct virtio_vsock_config.
func (d *Device) Config() []byte { return le.AppendUint64(nil, uint64(d.cid)) }

// Reset implements vhostuser.Device: a new kernel knows nothing of the old
// one's connections. Dials that the guest has not heard of wait for the new one.
func (d *Device) Reset() {
	d.mu.Lock()
	d.rx, d.tx = nil, nil
	d.stray, d.txPaused = nil, false
	d.mu.Unlock()
	d.failAll(syscall.ECONNRESET, (*Conn).unheard)
}

func (d *Device) Break(error) { d.failAll(syscall.ECONNRESET, (*Conn).unheard) }

// Close ends the device's life: all connections are reset, dials and listeners
// fail with net.ErrClosed.
func (d *Device) Close() error {
	d.mu.Lock()
	d.closed = true
	var ls []*Listener
	for _, l := range d.listeners {
		ls = append(ls, l)
	}
	d.mu.Unlock()
	for _, l := range ls {
		l.Close()
	}
	d.failAll(net.ErrClosed, (*Conn).established)
	d.failAll(syscall.ECONNRESET, func(*Conn) bool { return false })
	return nil
}

// failAll ends all connections but some, without telling the guest.
func (d *Device) failAll(err error, spare func(*Conn) bool) {
	d.mu.Lock()
	var all []*Conn
	for _, placed := range d.placed {
		all = slices.AppendSeq(all, maps.Keys(placed))
	}
	d.mu.Unlock()
	for _, c := range all {
		if !spare(c) {
			c.fail(err)
		}
	}
}

func (d *Device) HandleQueue(q *vhostuser.Queue) {
	if q.Index == rxQueue {
		d.mu.Lock()
		d.rx = q
		d.mu.Unlock()
		d.pump()
		return
	}
	d.mu.Lock()
	d.tx = q
	d.mu.Unlock()
	d.receive(q)
}

// receive handles all packets from the guest.
func (d *Device) receive(q *vhostuser.Queue) {
	for n := 1; !d.paused(); n++ {
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
	q.NotifyLater() // the guest only wants its buffers back
}

// paused reports whether the guest must first take its resets. The pump wakes
// the queue when it has.
func (d *Device) paused() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.txPaused = len(d.stray) >= maxStray
	return d.txPaused
}

// packet handles one packet from the guest.
func (d *Device) packet(c *vhostuser.Chain) {
	var b [headerLen]byte
	data := iov(c.Out)
	if data.read(b[:]) < headerLen {
		return
	}
	h := decode(&b)
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

// refuse answers a packet of no connection with a reset.
func (d *Device) refuse(h *header) {
	if h.op == opRST {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stray = append(d.stray, header{srcCID: h.dstCID, dstCID: h.srcCID, srcPort: h.dstPort, dstPort: h.srcPort, typ: h.typ, op: opRST})
}

// add enters a new connection, if there is room for one.
func (d *Device) add(c *Conn) error {
	switch {
	case d.closed:
		return net.ErrClosed
	case len(d.placed[c.origin]) >= maxConns:
		return syscall.ENOBUFS
	}
	d.placed[c.origin][c] = struct{}{}
	d.conns[c.key] = c
	return nil
}

// forget takes a connection that is gone from the wire out of the table.
func (d *Device) forget(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns[c.key] == c {
		delete(d.conns, c.key)
	}
}

// release gives up the place of a connection that is both closed and gone. Until
// the guest has taken its reset it has one: a guest that takes nothing makes no
// more of them.
func (d *Device) release(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.placed[c.origin], c)
	d.dequeue(c)
}

// grow widens a window by so much, if there is room for that. What one asks in
// vain is there for a moment: it must keep no other from giving back.
func (d *Device) grow(by int) bool {
	if d.grown.Add(int64(by)) > maxGrown {
		d.grown.Add(-int64(by))
		return false
	}
	return true
}
