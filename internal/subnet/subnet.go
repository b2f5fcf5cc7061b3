// Package subnet has the addresses of the guest's network, on which host and guest agree.
package subnet

import "net/netip"

// The guest's only NIC is one end of a wire. The gateway in the daemon is the other end. Both
// addresses of each end are fixed, so there is neither DHCP nor ARP.
const (
	GuestMAC   = "52:54:00:6f:73:61" // locally administered
	GatewayMAC = "52:54:00:6f:73:62"
	// MTU is the largest packet on the wire.
	MTU = 1500
)

// Guest returns the guest's own address with its network.
func Guest() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 2, 15}), 24) }

// Gateway returns the gateway's address. It is the guest's only name server.
func Gateway() netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 2, 2}) }

// Rooms returns the network of rooms' addresses. Each room, and each plugin in it, has one of its
// own, which the gateway assigns. The range is not routed on the internet (RFC 2544).
func Rooms() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 128, 0}), 17) }

// RoomRouter returns the guest's end of each room's cable.
func RoomRouter() netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 128, 1}) }

// Held returns the network of addresses that the gateway's name server gives to names that are not
// resolved: those that are refused, and those for which a person is asked first.
func Held() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 0, 0}), 17) }
