package config

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// The limits of DNS.
const (
	maxHost  = 253
	maxLabel = 63
)

// isLabel accepts underscores, which services and buckets have.
func isLabel(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && (c != '-' || i == 0 || i == len(s)-1) {
			return false
		}
	}
	return s != "" && len(s) <= maxLabel
}

// EndsInNumber reports whether programs may take a name in lower case for an IPv4 address: 127.1, 0x7f000001.
func EndsInNumber(name string) bool {
	s := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(s, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(s, "0123456789") == ""
}

// ParseHost returns a host name in lower case without a trailing dot. Names beyond ASCII, numbers
// and addresses are errors.
func ParseHost(text string) (string, error) {
	host := strings.ToLower(strings.TrimSuffix(text, "."))
	switch {
	case strings.ContainsFunc(text, func(r rune) bool { return r > '~' }):
		return "", fmt.Errorf("%+q has letters beyond ASCII, which look like others; write the name with xn--", text)
	case host == "" || len(host) > maxHost:
		return "", fmt.Errorf("a host has 1 to %d letters", maxHost)
	case strings.Contains(host, "://"):
		return "", errors.New("write the host alone, without https://")
	case strings.Contains(host, "@"):
		return "", errors.New("write the host alone, without a user")
	}
	for label := range strings.SplitSeq(host, ".") {
		if !isLabel(label) {
			return "", fmt.Errorf("%q is not a host", text)
		}
	}
	if EndsInNumber(host) {
		return "", fmt.Errorf("%q is a number and not a host; write an address as in 192.0.2.1", text)
	}
	return host, nil
}

// parseRuleHost parses the host of a rule: a name, "*.NAME" or "*".
func parseRuleHost(text string) (string, error) {
	if text == "*" {
		return text, nil
	}
	parent, isWild := strings.CutPrefix(text, "*.")
	host, err := ParseHost(parent)
	switch {
	case err != nil:
		return "", err
	case !isWild && host != Localhost && strings.HasSuffix(host, "."+Localhost), isWild && (host == Localhost || strings.HasSuffix(host, "."+Localhost)):
		return "", fmt.Errorf("write %q for this computer", Localhost)
	case !isWild:
		return host, nil
	case len(host)+2 > maxHost:
		return "", fmt.Errorf("a host has 1 to %d letters", maxHost)
	case IsPublicSuffix(host):
		return "", fmt.Errorf("anybody can have a name in *.%s; name the hosts below it", host)
	}
	return "*." + host, nil
}

// IsPublicSuffix reports whether names directly below a host belong to different owners: "com",
// "co.uk", "github.io". Unknown names of one label count, except those for private networks.
func IsPublicSuffix(host string) bool {
	switch host {
	case "corp", "home", "internal", "intranet", "lan", "local", "private": // RFC 6762, appendix G
		return false
	}
	suffix, _ := publicsuffix.PublicSuffix(host)
	return suffix == host
}
