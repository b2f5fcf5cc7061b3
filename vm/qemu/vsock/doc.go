// Package vsock is a virtio-vsock device that lives in this process: the host side of the guest's AF_VSOCK stream sockets, without AF_VSOCK on the host.
//
// The kernel's vhost-vsock is global: every process on the host can connect to the guest. Here only
// the holder of the [Device] can. Dial and Listen return net.Conn and net.Listener, with addresses
// of github.com/mdlayher/vsock, which guest programs use too.
//
// # How data flows
//
// Data to the guest is not buffered: Write copies into the guest's receive buffers and returns when
// all data is there. Data from the guest goes directly to a waiting Read, or else into the
// connection's window, which bounds the memory that a guest can use here.
//
// # Locks
//
// Device.mu and Conn.mu are never held together; either may be held when a
// queue's lock is taken. Packets from the guest are handled on the tx queue's
// goroutine alone, packets to the guest by whoever has one: see Device.pump.
package vsock
