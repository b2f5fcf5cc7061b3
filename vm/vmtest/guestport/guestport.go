// Package guestport has the vsock ports that the test guest and those who try it agree on.
package guestport

// Ports of the guest.
const (
	Control = 1024
	Echo    = 1025 // sends back what it gets
	Sink    = 1026 // reads to the end, answers with the byte count
	Source  = 1027 // reads a byte count, writes that many
	Relay   = 1028 // joins the connection with one to RelayBack
)

// RelayBack is the port of the host that the guest's relay and its dials connect to.
const RelayBack = 5000
