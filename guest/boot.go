package guest

import (
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
)

// Boot is what the guest does once the host has spoken. The clock and some
// entropy come with it by themselves.
type Boot struct {
	// Hostname is the guest's name; empty leaves the kernel's.
	Hostname string
	Network  NetworkPlan
	// Mounts are made in this order, before any command runs.
	Mounts []Mount
	// Bridge is the key of who serves preface.Port on the host. Without it, programs
	// in the guest find no bridge.
	Bridge *protocol.BridgeKey
	// Base is what the base is known by: rooms' layers that were begun on another one
	// are begun anew. Empty, and all stay.
	Base string
}

// NetworkKind is how the guest gets its network.
type NetworkKind string

const (
	NetworkNone   NetworkKind = "none"   // loopback only
	NetworkDHCP   NetworkKind = "dhcp"   // ask
	NetworkStatic NetworkKind = "static" // as the plan says
)

// NetworkPlan is how the guest's first network interface is set up.
type NetworkPlan struct {
	Kind NetworkKind // zero means NetworkNone
	// Address (with prefix length: "10.0.2.15/24"), Gateway and DNS are for
	// NetworkStatic. Gateway and DNS may be empty.
	Address string
	Gateway string
	DNS     []string
}

// Mount is a VirtioFS share of the machine that the guest mounts.
type Mount struct {
	Tag      string // the share's
	Path     string // absolute; made if it is not there
	ReadOnly bool   // in the guest; what counts is the share's own setting
}

func (b Boot) proto() *guestpb.Boot {
	kinds := map[NetworkKind]guestpb.Network_Kind{
		"": guestpb.Network_KIND_NONE, NetworkNone: guestpb.Network_KIND_NONE,
		NetworkDHCP: guestpb.Network_KIND_DHCP, NetworkStatic: guestpb.Network_KIND_STATIC,
	}
	kind, ok := kinds[b.Network.Kind]
	if !ok {
		kind = -1 // refused by the check
	}
	p := &guestpb.Boot{Hostname: b.Hostname, Base: b.Base, Network: &guestpb.Network{
		Kind: kind, Address: b.Network.Address, Gateway: b.Network.Gateway, Dns: b.Network.DNS,
	}}
	if b.Bridge != nil {
		p.BridgeKey = b.Bridge[:]
	}
	for _, m := range b.Mounts {
		p.Mounts = append(p.Mounts, &guestpb.Mount{Tag: m.Tag, Path: []byte(m.Path), ReadOnly: m.ReadOnly})
	}
	return p
}
