package config

import (
	"net/netip"
	"net/url"
	"strings"
)

// MCP configures MCP over HTTP.
type MCP struct {
	// Listen is the address to listen on; empty is none.
	Listen LoopbackAddress
	// Origins are the web pages that may send requests.
	Origins []WebOrigin
}

func mcpFields() table[Settings] {
	return table[Settings]{
		live(textField("mcp.listen", "where MCP is served over HTTP", loopbackAllowed, ParseLoopbackAddress, func(s *Settings) *LoopbackAddress { return &s.MCP.Listen })),
		live(listField("mcp.origins", "web pages that may send requests there", originAllowed, parseWebOrigin, func(s *Settings) *[]WebOrigin { return &s.MCP.Origins })),
	}
}

// LoopbackAddress is a loopback address with a port: "127.0.0.1:8138".
type LoopbackAddress string

const loopbackAllowed = `a loopback address with a port ("127.0.0.1:8138"), or "" for none`

// ParseLoopbackAddress parses an address, which may be empty.
func ParseLoopbackAddress(text string) (LoopbackAddress, error) {
	if text == "" {
		return "", nil
	}
	at, err := netip.ParseAddrPort(text)
	if err != nil || !at.Addr().IsLoopback() || at.Addr().Zone() != "" || at.Port() == 0 {
		return "", notAllowed("read address", text, loopbackAllowed)
	}
	return LoopbackAddress(at.String()), nil
}

// WebOrigin is the origin of a web page: "https://app.example".
type WebOrigin string

const (
	originAllowed = `the origin of a web page ("https://app.example")`
	maxOrigin     = 300 // bytes; DNS names have up to 253
)

// parseWebOrigin parses an origin: a scheme, a host and optionally a port.
func parseWebOrigin(text string) (WebOrigin, error) {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxOrigin || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || text != u.Scheme+"://"+strings.ToLower(u.Host) {
		return "", notAllowed("read origin", text, originAllowed)
	}
	return WebOrigin(text), nil
}
