// Package guestport defines the vsock ports of the test guest and the host's tests, and the guest's kernel arguments.
package guestport

// Ports of the guest.
const (
	Control = 1024
	Echo    = 1025 // echoes data
	Sink    = 1026 // reads to the end, answers with the byte count
	Source  = 1027 // reads a byte count, writes that many
	Relay   = 1028 // joins the connection with one to RelayBack, and first writes that one's port of the guest
)

// RelayBack is the port of the host that the guest's relay and its dials connect to.
const RelayBack = 5000

// NeverUp is a kernel argument that keeps the guest from loading its drivers.
const NeverUp = "osaurus.never=up"
