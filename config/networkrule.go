package config

import (
	"net/netip"
	"time"
)

// NetworkMode is what an agent reaches without rules.
type NetworkMode string

const (
	// NetworkOpen is the internet, but neither this computer nor local networks.
	NetworkOpen NetworkMode = "open"
	// NetworkAllow is only what rules allow.
	NetworkAllow NetworkMode = "allow"
	// NetworkAsk holds what no rule names while a person is asked.
	NetworkAsk NetworkMode = "ask"
	// NetworkClosed is nothing but the room's loopback.
	NetworkClosed NetworkMode = "none"
)

// NetworkRule allows or denies something. Its text is canonical: see ParseNetworkRule.
type NetworkRule struct {
	Deny     bool
	Protocol string // "tcp", "udp" or "" for both
	// Exactly one of these is set.
	Host   string       // "api.example.org", "*.example.org", "*"
	Prefix netip.Prefix // a network or an address
	Set    string       // the name of a set: "github"
	// Ports is empty for all.
	FirstPort, LastPort uint16
	// Methods and Path restrict HTTP requests. With either, the gateway opens TLS.
	Methods []string
	Path    string // "/v1/*"
	Until   time.Time
}

// ParseNetworkRule parses a rule:
//
//	allow|deny [tcp|udp] HOST|*.HOST|CIDR|@SET[:PORT[-PORT]] [method=GET|HEAD] [path=/v1/*] [until=2026-12-31]
//
// An IPv6 address with a port is in brackets. "localhost" is this computer's loopback.
func ParseNetworkRule(text string) (NetworkRule, error) { panic("todo") }

// String returns the rule in the form that ParseNetworkRule reads.
func (r NetworkRule) String() string { panic("todo") }
