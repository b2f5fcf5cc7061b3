package guest

import (
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
)

// Boot tells the guest how to set itself up. Connect adds the time and some entropy.
type Boot struct {
	// Hostname is the guest's name; empty leaves the kernel's.
	Hostname string
	Network  NetworkPlan
	// Mounts are made in this order, before any command runs.
	Mounts []Mount
	// Bridge is the key of the host's bridge listener. Without it the guest offers no bridge.
	Bridge *protocol.BridgeKey
	// Base identifies the base image. Room layers made on another base are reset; if empty, all
	// layers are kept.
	Base string
}

// NetworkKind is how the guest gets its network.
type NetworkKind string

const (
	NetworkNone   NetworkKind = "none"   // loopback only
	NetworkDHCP   NetworkKind = "dhcp"   // from the network
	NetworkStatic NetworkKind = "static" // from the plan
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

// Mount is a VirtioFS share for the guest to mount.
type Mount struct {
	Tag      string // of the share
	Path     string // absolute; created if missing
	ReadOnly bool   // in the guest; the host enforces its own setting
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
