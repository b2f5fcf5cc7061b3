// Package vsock is a virtio-vsock device that lives in this process: the host
// side of the guest's AF_VSOCK stream sockets, without the host kernel's
// vhost-vsock and without AF_VSOCK on the host.
//
// Device implements [vhostuser.Device]; Dial and Listen give net.Conn and
// net.Listener.
package vsock

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"osaurus-sandbox/vm/qemu/vhostuser"
)

const (
	rxQueue = 0 // device to driver
	txQueue = 1 // driver to device
	// The third queue (events, only for migration) is served by QEMU itself.

	bufSize    = 256 << 10 // receive and send buffer per connection, like Linux
	backlog    = 128       // connections a listener holds before Accept
	maxStray   = 256       // resets waiting for room in the rx queue
	maxPayload = 64 << 10  // per packet, like Linux
)

// Addr is a vsock address.
type Addr struct{ CID, Port uint32 }

func (Addr) Network() string  { return "vsock" }
func (a Addr) String() string { return fmt.Sprintf("vsock:%d:%d", a.CID, a.Port) }

// key identifies a connection: there is one guest, so two ports do.
type key struct{ host, guest uint32 }

// Device is one guest's vsock device.
//
// Locks: txMu > (Device.mu, Conn.mu, queue locks). Device.mu and Conn.mu are
// never held together. Only the goroutine that owns pumping uses the rx queue.
type Device struct {
	cid uint32

	mu        sync.Mutex
	conns     map[key]*Conn
	listeners map[uint32]*Listener
	ready     []*Conn  // have something to send; Conn.queued is set
	stray     []header // resets that belong to no connection
	nextPort  uint32
	rx, tx    *vhostuser.Queue
	txPaused  bool // because stray is full

	pumping atomic.Int32
	txMu    sync.Mutex
}

// New makes a device for the guest with the given context id (3 or more).
func New(guestCID uint32) *Device {
	return &Device{cid: guestCID, conns: map[key]*Conn{}, listeners: map[uint32]*Listener{}, nextPort: 1 << 30}
}

// Features implements vhostuser.Device. Without a feature bit the device has
// stream sockets only.
func (d *Device) Features() uint64 { return 0 }

// Queues implements vhostuser.Device.
func (d *Device) Queues() int { return 2 }

// Config implements vhostuser.Device: struct virtio_vsock_config.
func (d *Device) Config() []byte { return le.AppendUint64(nil, uint64(d.cid)) }

// Reset implements vhostuser.Device: a new kernel knows nothing of the old
// one's connections. Dials that sent nothing yet wait for the new one.
func (d *Device) Reset() {
	d.mu.Lock()
	old := d.conns
	d.conns = map[key]*Conn{}
	d.ready, d.stray, d.txPaused = nil, nil, false
	d.rx, d.tx = nil, nil
	d.mu.Unlock()
	for _, c := range old {
		c.mu.Lock()
		unsent := c.need&needRequest != 0
		c.mu.Unlock()
		if !unsent {
			c.fail(syscall.ECONNRESET)
			continue
		}
		d.mu.Lock()
		d.conns[c.key] = c
		c.queued = false
		d.mu.Unlock()
		d.schedule(c)
	}
}

// HandleQueue implements vhostuser.Device.
func (d *Device) HandleQueue(q *vhostuser.Queue) {
	d.mu.Lock()
	if q.Index == rxQueue {
		d.rx = q
	} else {
		d.tx = q
	}
	d.mu.Unlock()
	if q.Index == rxQueue {
		d.pump()
	} else {
		d.receive()
	}
}

// receive handles all packets from the guest.
func (d *Device) receive() {
	d.txMu.Lock()
	defer d.txMu.Unlock()
	for {
		d.mu.Lock()
		q := d.tx
		d.txPaused = len(d.stray) >= maxStray
		paused := d.txPaused
		d.mu.Unlock()
		if q == nil {
			return
		}
		if paused {
			q.Notify() // the pump continues here when it has sent the resets
			return
		}
		c, ok := q.Pop()
		if !ok {
			q.Notify()
			return
		}
		d.packet(c)
		q.Push(c, 0)
	}
}

// packet handles one packet from the guest.
func (d *Device) packet(c *vhostuser.Chain) {
	var b [headerLen]byte
	var h header
	data := iov(c.Out)
	if data.read(b[:]) < headerLen {
		return
	}
	h.decode(&b)
	if h.srcCID != uint64(d.cid) || h.dstCID != HostCID {
		return
	}
	if h.typ != typeStream || h.len > maxPayload || int(h.len) > c.OutLen-headerLen {
		d.refuse(&h)
		return
	}
	d.mu.Lock()
	conn := d.conns[key{h.dstPort, h.srcPort}]
	d.mu.Unlock()
	switch {
	case conn == nil && h.op == opRequest:
		d.accept(&h)
	case conn == nil:
		d.refuse(&h)
	default:
		conn.packet(&h, data)
	}
}

// refuse answers a packet of no connection with a reset.
func (d *Device) refuse(h *header) {
	if h.op == opRST {
		return
	}
	d.mu.Lock()
	d.stray = append(d.stray, header{srcCID: h.dstCID, dstCID: h.srcCID, srcPort: h.dstPort, dstPort: h.srcPort, typ: h.typ, op: opRST})
	d.mu.Unlock()
	d.pump()
}

// accept handles a connection request.
func (d *Device) accept(h *header) {
	c := newConn(d, key{h.dstPort, h.srcPort})
	c.peerAlloc, c.peerFwd = h.bufAlloc, h.fwdCnt
	c.state, c.need = stateOpen, needResponse
	d.mu.Lock()
	l := d.listeners[h.dstPort]
	if l == nil || len(l.queue) == cap(l.queue) {
		d.mu.Unlock()
		d.refuse(h)
		return
	}
	d.conns[c.key] = c
	l.queue <- c // has room: only this function sends, under d.mu
	d.mu.Unlock()
	d.schedule(c)
}

// schedule notes that c may have something to send, and sends what it can.
func (d *Device) schedule(c *Conn) {
	d.mu.Lock()
	if !c.queued {
		c.queued = true
		d.ready = append(d.ready, c)
	}
	d.mu.Unlock()
	d.pump()
}

// pump sends packets to the guest until there are none left or the guest has
// no buffers left. One goroutine at a time does so; others leave it their
// work. That is the goroutine that has data to send, so a small message takes
// no switch between goroutines.
func (d *Device) pump() {
	if d.pumping.Add(1) != 1 {
		return
	}
	for {
		n := d.pumping.Load()
		d.fill()
		if d.pumping.CompareAndSwap(n, 0) {
			return
		}
	}
}

func (d *Device) fill() {
	d.mu.Lock()
	q := d.rx
	d.mu.Unlock()
	if q == nil {
		return
	}
	defer q.Notify()
	for {
		var c *Conn
		var h header
		d.mu.Lock()
		switch {
		case len(d.stray) > 0:
			h = d.stray[0]
		case len(d.ready) > 0:
			c = d.ready[0]
			d.ready = d.ready[1:]
			// From here on a change of c queues it again.
			c.queued = false
		default:
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()

		if c == nil {
			chain, ok := q.Pop()
			if !ok {
				return
			}
			q.Push(chain, put(chain, &h, nil, nil))
			d.mu.Lock()
			if len(d.stray) > 0 { // Reset may have emptied it
				d.stray = d.stray[1:]
			}
			resume := d.txPaused && len(d.stray) < maxStray/2
			d.txPaused = d.txPaused && !resume
			d.mu.Unlock()
			if resume {
				go d.receive()
			}
			continue
		}
		more, starved := c.send(q)
		if more || starved {
			d.mu.Lock()
			if !c.queued {
				c.queued = true
				if starved { // keep its place
					d.ready = append([]*Conn{c}, d.ready...)
				} else {
					d.ready = append(d.ready, c)
				}
			}
			d.mu.Unlock()
		}
		if starved {
			return
		}
	}
}

// put writes a packet into a chain of the rx queue and returns its length.
func put(c *vhostuser.Chain, h *header, p1, p2 []byte) int {
	var b [headerLen]byte
	h.encode(&b)
	v := iov(c.In)
	return v.write(b[:]) + v.write(p1) + v.write(p2)
}

// forget removes c from the table.
func (d *Device) forget(c *Conn) {
	d.mu.Lock()
	if d.conns[c.key] == c {
		delete(d.conns, c.key)
	}
	d.mu.Unlock()
}

// Dial connects to a listener in the guest. It waits for the guest to boot;
// if nothing listens there it returns ECONNREFUSED.
func (d *Device) Dial(ctx context.Context, port uint32) (net.Conn, error) {
	d.mu.Lock()
	for {
		d.nextPort++
		if d.nextPort < 1<<30 || d.nextPort == 1<<32-1 {
			d.nextPort = 1 << 30
		}
		if _, used := d.conns[key{d.nextPort, port}]; !used {
			break
		}
	}
	c := newConn(d, key{d.nextPort, port})
	c.need = needRequest
	d.conns[c.key] = c
	d.mu.Unlock()
	d.schedule(c)
	var err error
	select {
	case <-c.settled:
		c.mu.Lock()
		err = c.err
		c.mu.Unlock()
	case <-ctx.Done():
		err = ctx.Err()
		c.abort()
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "vsock", Addr: c.RemoteAddr(), Err: err}
	}
	return c, nil
}

// Listen accepts the guest's connections to a port of the host.
func (d *Device) Listen(port uint32) (*Listener, error) {
	l := &Listener{d: d, port: port, queue: make(chan *Conn, backlog), closed: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listeners[port] != nil {
		return nil, &net.OpError{Op: "listen", Net: "vsock", Addr: l.Addr(), Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	d.listeners[port] = l
	return l, nil
}

// Listener is a net.Listener for connections from the guest.
type Listener struct {
	d      *Device
	port   uint32
	queue  chan *Conn
	closed chan struct{}
	once   sync.Once
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
	default:
		select {
		case c := <-l.queue:
			return c, nil
		case <-l.closed:
		}
	}
	return nil, &net.OpError{Op: "accept", Net: "vsock", Addr: l.Addr(), Err: net.ErrClosed}
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return Addr{HostCID, l.port} }

// Close implements net.Listener. Connections not accepted yet are reset.
func (l *Listener) Close() error {
	l.once.Do(func() {
		l.d.mu.Lock()
		delete(l.d.listeners, l.port)
		l.d.mu.Unlock()
		close(l.closed)
		for {
			select {
			case c := <-l.queue:
				c.abort()
				continue
			default:
			}
			break
		}
	})
	return nil
}
