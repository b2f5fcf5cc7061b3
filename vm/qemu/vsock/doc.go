// Package vsock is a virtio-vsock device that lives in this process: the host side of the guest's AF_VSOCK stream sockets, without AF_VSOCK on the host.
//
// The kernel's own vhost-vsock is global to the host and lets every process of
// it talk to the guest. Here only the holder of the [Device] can: Dial and
// Listen give net.Conn and net.Listener, and addresses are those of
// github.com/mdlayher/vsock, the module that guest programs use.
//
// # How data flows
//
// Nothing is buffered on the way to the guest: Write copies into the guest's
// own receive buffers and returns when all of the data is there. On the way
// from the guest data goes straight to a waiting Read, and else into the
// connection's window, which is all that a guest can make this process hold.
//
// # Locks
//
// Device.mu and Conn.mu are never held together; either may be held when a
// queue's lock is taken. Packets from the guest are handled on the tx queue's
// goroutine alone, packets to the guest by whoever has one: see Device.pump.
package vsock
