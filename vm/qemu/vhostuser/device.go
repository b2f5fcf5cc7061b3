//go:build linux

package vhostuser

import "log/slog"

// Device is a virtio device.
type Device interface {
	// Features returns the device's own virtio feature bits (0 to 23).
	Features() uint64
	// Queues returns the number of virtqueues the back end serves.
	Queues() int
	// Config returns the device's configuration space, or nil if the front
	// end keeps that itself. (QEMU asks the back end for a vsock device's
	// and keeps a file system device's.)
	Config() []byte
	// HandleQueue is called on the queue's own goroutine when the queue
	// starts and whenever the driver kicks it. It pops chains until there
	// are no more; it may push them later, from anywhere, but must push
	// each: stopping a queue waits for that. A goroutine for one chain is
	// best started with Queue.Go, other code that runs on foreign
	// goroutines is wrapped in Queue.Guard; so a panic breaks the device
	// only.
	HandleQueue(q *Queue)
	// Reset is called when the driver starts anew (boot, reboot, driver
	// reload) and when the front end is gone. No queue runs meanwhile, but
	// HandleQueue may still be busy with a chain that had to be given up.
	Reset()
}

// Breaker is a Device that wants to know when it broke: its queues are dead
// until the next Reset. Break is called once per break, on a goroutine of its
// own.
type Breaker interface {
	Break(err error)
}

// Options are the optional parameters of Serve.
type Options struct {
	Log *slog.Logger // default: discard
}
