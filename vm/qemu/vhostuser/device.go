//go:build linux

package vhostuser

// Device is a virtio device.
type Device interface {
	// Queues returns the number of virtqueues the back end serves.
	Queues() int
	// Config returns the device's configuration space, or nil if the front end keeps it. (QEMU
	// keeps that of a file system device, but asks the back end for a vsock device's.)
	Config() []byte
	// HandleQueue is called on the queue's own goroutine when the queue starts and whenever the
	// driver kicks it. It must pop chains until there are no more. It may push them later, from any
	// goroutine, but must push each, since stopping a queue waits for them. Use Queue.Go to handle
	// a chain on another goroutine, and Queue.Guard for other code there, so that a panic only
	// breaks the device.
	HandleQueue(q *Queue)
	// Reset is called when the driver restarts (boot, reboot, driver reload) and when the front end
	// is gone. No queue runs meanwhile, but HandleQueue may still be busy with an abandoned chain.
	Reset()
	// Break is called once when the device breaks, on its own goroutine. The device's queues stay
	// dead until the next Reset.
	Break()
}
