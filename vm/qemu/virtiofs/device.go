//go:build linux

// Package virtiofs is a virtio-fs device: it carries FUSE requests between a virtqueue and the server of a folder.
package virtiofs

import (
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/fs"
	"osaurus-sandbox/vm/qemu/vhostuser"
)

// Device is one share. It implements [vhostuser.Device].
type Device struct{ *fs.Server }

var _ vhostuser.Device = Device{}

// New returns a device for a share: see [fs.New].
func New(share vm.Share, opts fs.Options) (Device, error) {
	server, err := fs.New(share, opts)
	return Device{server}, err
}

// Queues implements vhostuser.Device: one for FORGET, one for requests. Linux before 6.10 uses no
// more.
func (d Device) Queues() int { return 2 }

// Config implements vhostuser.Device: QEMU keeps tag and queue count itself.
func (d Device) Config() []byte { return nil }

// Reset implements vhostuser.Device. It ends the session.
func (d Device) Reset() { d.Unmount() }

// Break implements vhostuser.Device.
func (d Device) Break() {}

// HandleQueue implements vhostuser.Device. It handles fast requests directly and slow ones on a
// goroutine each.
func (d Device) HandleQueue(q *vhostuser.Queue) {
	for {
		c, ok := q.Pop()
		if !ok {
			return
		}
		r := request(c)
		n, done := 0, !r.Valid()
		if !done {
			n, done = d.HandleCached(r)
		}
		switch {
		case !done && r.Slow():
			q.Go(c, func(c *vhostuser.Chain) int { // wait there, so that fast requests are not delayed
				r := request(c)
				defer d.Admit(r)()
				return d.Handle(r)
			})
			continue
		case !done:
			n = d.Handle(r)
		}
		q.Push(c, n)
		q.Notify()
	}
}

func request(c *vhostuser.Chain) fs.Request {
	return fs.Request{Out: c.Out, OutLen: c.OutLen, In: c.In, InLen: c.InLen}
}
