package policy

import (
	"net/netip"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/subnet"
)

// closed is a range of addresses that no mode opens, only rules.
type closed struct {
	prefix netip.Prefix
	what   string // "local networks"
	// byName lets a rule by name open it. Elsewhere, the owner of a name could point it at this
	// computer or at a cloud's credentials.
	byName bool
}

const (
	thisComputer = "this computer"
	localNets    = "local networks"
	metadata     = "link-local addresses, where clouds have credentials,"
	reserved     = "reserved addresses"
)

// closedRanges lists ranges, the smallest first. They are in the registries of special addresses of
// IANA, and what clouds use.
var closedRanges = []closed{
	{netip.MustParsePrefix("168.63.129.16/32"), metadata, false},   // Azure
	{netip.MustParsePrefix("100.100.100.200/32"), metadata, false}, // Alibaba
	{netip.MustParsePrefix("fd00:ec2::/32"), metadata, false},      // Amazon
	{netip.MustParsePrefix("127.0.0.0/8"), thisComputer, false},
	{netip.MustParsePrefix("::1/128"), thisComputer, false},
	{netip.MustParsePrefix("0.0.0.0/8"), thisComputer, false}, // Linux connects 0.0.0.0 to itself
	{netip.MustParsePrefix("::/128"), thisComputer, false},
	{netip.MustParsePrefix("10.0.0.0/8"), localNets, true},
	{netip.MustParsePrefix("172.16.0.0/12"), localNets, true},
	{netip.MustParsePrefix("192.168.0.0/16"), localNets, true},
	{netip.MustParsePrefix("100.64.0.0/10"), localNets, true}, // of providers and VPNs
	{netip.MustParsePrefix("198.18.0.0/15"), localNets, true}, // some VPNs give these to all names
	{netip.MustParsePrefix("fc00::/7"), localNets, true},
	{netip.MustParsePrefix("169.254.0.0/16"), metadata, false},
	{netip.MustParsePrefix("fe80::/10"), metadata, false},
	{netip.MustParsePrefix("192.0.0.0/24"), reserved, false}, // Oracle's metadata too
	{netip.MustParsePrefix("192.0.2.0/24"), reserved, false},
	{netip.MustParsePrefix("192.88.99.0/24"), reserved, false}, // 6to4
	{netip.MustParsePrefix("198.51.100.0/24"), reserved, false},
	{netip.MustParsePrefix("203.0.113.0/24"), reserved, false},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast addresses", false},
	{netip.MustParsePrefix("ff00::/8"), "multicast addresses", false},
	{netip.MustParsePrefix("240.0.0.0/4"), reserved, false},
	{netip.MustParsePrefix("2001::/23"), reserved, false}, // Teredo and others
	{netip.MustParsePrefix("2001:db8::/32"), reserved, false},
	{netip.MustParsePrefix("2002::/16"), reserved, false}, // 6to4
	{netip.MustParsePrefix("3fff::/20"), reserved, false},
}

// Public reports whether an address is on the Internet: neither local nor a way to a local network.
func Public(a netip.Addr) bool {
	return a.IsValid() && a.Zone() == "" && Policy{}.closedRange(plainAddr(a)) == nil
}

// internet6 is all of the internet in IPv6.
func internet6() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0x20}), 3) }

// nat64 returns the range whose last four bytes are an IPv4 address.
func nat64() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{1: 0x64, 2: 0xff, 3: 0x9b}), 96)
}

// plainAddr returns the address that is meant: the inner one of a mapped or translated address, and
// this computer's loopback for the gateway.
func plainAddr(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if nat64().Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	if a == subnet.Gateway() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return a
}

// closedRange returns the range of a plain address that no mode opens, or nil.
func (p Policy) closedRange(a netip.Addr) *closed {
	if !a.IsValid() {
		return nil
	}
	for _, local := range p.Local {
		if local.Addr() == a {
			return &closed{netip.PrefixFrom(a, a.BitLen()), thisComputer, false}
		}
	}
	for i := range closedRanges {
		if closedRanges[i].prefix.Contains(a) {
			return &closedRanges[i]
		}
	}
	for _, local := range p.Local {
		if local.Contains(a) {
			return &closed{local.Masked(), localNets, true}
		}
	}
	if a.Is6() && !internet6().Contains(a) {
		return &closed{netip.PrefixFrom(a, a.BitLen()), reserved, false}
	}
	return nil
}

// opens reports whether an allow rule that matches a flow also opens its closed range.
func (c *closed) opens(r *config.NetworkRule) bool {
	switch {
	case c == nil:
		return true
	case r.Host == config.Localhost:
		return c.what == thisComputer
	case r.Prefix.IsValid(): // a larger network is meant as "the internet"
		return r.Prefix.Bits() >= c.prefix.Bits() && c.prefix.Contains(r.Prefix.Addr())
	}
	return c.byName && r.Set == "" && r.Host != "*" && !r.Public
}
