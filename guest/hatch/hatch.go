// Package hatch is where programs in the guest find the relay, and what they show to the host: constants, because who asks is to start fast.
package hatch

// A room has a socket and a token of its own there.
const (
	Socket   = "/run/osaurus-bridge.sock"
	TokenDir = "/run/osaurus" // a token is in USER.token in it
)

// Program asks for whoever has none of their own. It is there in rooms and in the guest.
const Program = "/usr/local/bin/osaurus-host"

// Connect is the argument with which Program joins its input and output to what listens on a
// port of the room, for people who forward it; the host is not asked. Where nothing listens, it
// exits as fault.NotFound does.
const Connect = "connect"
