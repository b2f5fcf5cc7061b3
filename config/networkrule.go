package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"osaurus-sandbox/internal/fault"
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

const networkModeAllowed = `"open", "allow", "ask" or "none"`

func parseNetworkMode(text string) (NetworkMode, error) {
	switch m := NetworkMode(text); m {
	case NetworkOpen, NetworkAllow, NetworkAsk, NetworkClosed:
		return m, nil
	}
	return "", notAllowed("read network mode", text, networkModeAllowed)
}

// NetworkRule allows or denies something. Its text is canonical: see ParseNetworkRule.
type NetworkRule struct {
	Deny     bool
	Protocol string // "tcp", "udp" or "" for both
	// Exactly one of these is set.
	Host   string       // "api.example.org", "*.example.org", "*", Localhost
	Prefix netip.Prefix // a network or an address
	Set    string       // the name of a set: "github"
	// FirstPort and LastPort are 0 for all ports.
	FirstPort, LastPort uint16
	// Methods and Path restrict HTTP requests. With either, the gateway opens TLS.
	Methods []string // in capitals, sorted
	Path    string   // "/v1/*"
	// Public keeps a rule by name from opening local networks.
	Public bool
	// Until is when the rule ends. Zero is never.
	Until time.Time
}

// Localhost is the host of rules for this computer's loopback.
const Localhost = "localhost"

// The bounds of a rule.
const (
	maxNetworkRule   = 512 // bytes: a name has at most 253, and a path fits beside it
	maxRuleMethods   = 16  // HTTP itself has nine
	maxRulePath      = 200
	minUntil         = 2000 // years before this and after maxUntil are typos
	maxUntil         = 2999
	ruleDay          = "2006-01-02"
	methodKey        = "method="
	pathKey          = "path="
	publicKey        = "public"
	untilKey         = "until="
	networkRuleShape = "allow|deny [tcp|udp] HOST|*.HOST|CIDR|@SET[:PORT[-PORT]] [method=GET|HEAD] [path=/v1/*] [public] [until=2026-12-31]"
)

var (
	ruleSet    = rule{"set of hosts", regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`), 64, "the name of a set of hosts"}
	ruleMethod = regexp.MustCompile(`^[A-Z][A-Z-]*$`)
	// rulePath has no %, since paths are compared decoded, and nothing special to shells and lists.
	rulePath = regexp.MustCompile(`^/[A-Za-z0-9._~:@!$&()+=/-]*$`)
)

// ParseNetworkRule parses a rule:
//
//	allow|deny [tcp|udp] HOST|*.HOST|CIDR|@SET[:PORT[-PORT]] [method=GET|HEAD] [path=/v1/*] [public] [until=2026-12-31]
//
// An IPv6 address with a port is in brackets. "localhost" is this computer's loopback. A rule by name
// also allows its addresses in local networks, unless it has "public". A rule
// counts until its last day is over in UTC, or until a time as in RFC 3339. It has no comma.
func ParseNetworkRule(text string) (NetworkRule, error) {
	r, err := parseRule(text)
	if err != nil {
		return NetworkRule{}, fault.Newf(fault.InvalidArgs, "read network rule", brief(quoted(text)), "not allowed: %w", err).Advise("A rule is " + networkRuleShape + ".")
	}
	return r, nil
}

func parseRule(text string) (r NetworkRule, err error) {
	if len(text) > maxNetworkRule || strings.Contains(text, ",") {
		return r, fmt.Errorf("a rule has at most %d bytes and no comma", maxNetworkRule)
	}
	words := strings.Fields(text)
	if len(words) < 2 || words[0] != "allow" && words[0] != "deny" {
		return r, errors.New(`it is not "allow" or "deny" and a host`)
	}
	r.Deny, words = words[0] == "deny", words[1:]
	if words[0] == "tcp" || words[0] == "udp" {
		r.Protocol, words = words[0], words[1:]
	}
	if len(words) == 0 {
		return r, errors.New("the host is missing; quote a rule of several words")
	}
	if err := r.parseTarget(words[0]); err != nil {
		return r, err
	}
	seen := map[string]bool{}
	for _, word := range words[1:] {
		key := cmp.Or(word[:strings.Index(word, "=")+1], word)
		if seen[key] {
			return r, fmt.Errorf("%s is there twice", key)
		}
		seen[key] = true
		if err := r.parseOption(key, word[len(key):]); err != nil {
			return r, err
		}
	}
	if r.Protocol == "udp" && r.HTTP() {
		return r, errors.New("HTTP requests are not udp")
	}
	return r, nil
}

// parseTarget parses the hosts and ports.
func (r *NetworkRule) parseTarget(text string) error {
	host, ports := text, ""
	switch {
	case strings.Contains(text, "://"):
		return errors.New("write the host alone, without https://")
	case strings.HasPrefix(text, "["):
		end := strings.Index(text, "]")
		if end < 0 || text[end+1:] != "" && text[end+1] != ':' || !strings.Contains(text[:end], ":") {
			return errors.New(`brackets hold an IPv6 address: "[2001:db8::1]:443"`)
		}
		host, ports = text[1:end], text[end+1:]
	case strings.Count(text, ":") == 1:
		at := strings.Index(text, ":")
		host, ports = text[:at], text[at:]
	}
	if ports != "" {
		if err := r.parsePorts(ports[1:]); err != nil {
			return err
		}
	}
	if set, ok := strings.CutPrefix(host, "@"); ok {
		if len(set) > ruleSet.max || !ruleSet.pattern.MatchString(set) {
			return fmt.Errorf("%q is not the name of a set", host)
		}
		r.Set = set
		return nil
	}
	if strings.Contains(host, "/") || strings.Contains(host, ":") && !strings.ContainsAny(host, "/@") {
		return r.parsePrefix(host)
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Is4() {
		r.Prefix = netip.PrefixFrom(addr, 32)
		return nil
	}
	var err error
	r.Host, err = parseRuleHost(host)
	return err
}

// parsePrefix parses a network or an IPv6 address.
func (r *NetworkRule) parsePrefix(text string) error {
	p, err := netip.ParsePrefix(text)
	if addr, noNetwork := netip.ParseAddr(text); noNetwork == nil && addr.Zone() == "" {
		p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	switch {
	case err != nil:
		return fmt.Errorf(`%q is neither a host nor a network: write "api.example.org" or "10.1.0.0/16"`, text)
	case p.Addr().Is4In6():
		return fmt.Errorf("write %s as an IPv4 address", p.Addr())
	case p != p.Masked():
		return fmt.Errorf("the network is %s", p.Masked())
	}
	r.Prefix = p
	return nil
}

func (r *NetworkRule) parsePorts(text string) error {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	for i, port := range []*uint16{&r.FirstPort, &r.LastPort} {
		text := []string{first, last}[i]
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 || text[0] == '0' {
			return fmt.Errorf("%q is not a port from 1 to 65535", text)
		}
		*port = uint16(n)
	}
	if r.FirstPort > r.LastPort {
		return fmt.Errorf("%s is not a range of ports", text)
	}
	return nil
}

func (r *NetworkRule) parseOption(key, value string) error {
	switch key {
	case methodKey:
		methods := strings.Split(strings.ToUpper(value), "|")
		for _, m := range methods {
			if !ruleMethod.MatchString(m) {
				return fmt.Errorf("%q is not an HTTP method", m)
			}
		}
		slices.Sort(methods)
		r.Methods = slices.Compact(methods)
		if len(r.Methods) > maxRuleMethods {
			return fmt.Errorf("more than %d methods", maxRuleMethods)
		}
		return nil
	case pathKey:
		return r.parsePath(value)
	case publicKey:
		r.Public = true
		return nil
	case untilKey:
		return r.parseUntil(value)
	}
	return fmt.Errorf("%q is not method=, path=, public or until=", key+value)
}

func (r *NetworkRule) parsePath(value string) error {
	plain := value
	if strings.HasSuffix(value, "/*") {
		plain = value[:len(value)-1]
	}
	if len(value) > maxRulePath || !rulePath.MatchString(plain) {
		return fmt.Errorf(`%q is not a path: it starts with "/", may end in "/*", and has plain letters`, value)
	}
	if clean := path.Clean(plain); strings.Contains(plain, "//") || clean != plain && clean+"/" != plain {
		return fmt.Errorf(`%q has an empty part, "." or ".."`, value)
	}
	r.Path = value
	return nil
}

func (r *NetworkRule) parseUntil(value string) error {
	end, err := time.Parse(ruleDay, value)
	if err == nil {
		end = end.AddDate(0, 0, 1)
	} else if end, err = time.Parse(time.RFC3339, value); err != nil {
		return fmt.Errorf(`%q is neither a day nor a time: "2026-12-31", "2026-12-31T18:00:00Z"`, value)
	}
	end = end.UTC().Truncate(time.Second)
	if y := end.Year(); y < minUntil || y > maxUntil {
		return fmt.Errorf("the year of %q is not from %d to %d", value, minUntil, maxUntil)
	}
	r.Until = end
	return nil
}

// HTTP reports whether the rule restricts HTTP requests.
func (r NetworkRule) HTTP() bool { return len(r.Methods) > 0 || r.Path != "" }

// Expired reports whether the rule has ended.
func (r NetworkRule) Expired(now time.Time) bool { return !r.Until.IsZero() && !now.Before(r.Until) }

// String returns the rule in the form that ParseNetworkRule reads.
func (r NetworkRule) String() string {
	words := []string{"allow"}
	if r.Deny {
		words[0] = "deny"
	}
	if r.Protocol != "" {
		words = append(words, r.Protocol)
	}
	words = append(words, r.target())
	if len(r.Methods) > 0 {
		words = append(words, methodKey+strings.Join(r.Methods, "|"))
	}
	if r.Path != "" {
		words = append(words, pathKey+r.Path)
	}
	if r.Public {
		words = append(words, publicKey)
	}
	if !r.Until.IsZero() {
		end := r.Until.UTC()
		text := end.Format(time.RFC3339)
		if end.Equal(end.Truncate(24 * time.Hour)) {
			text = end.AddDate(0, 0, -1).Format(ruleDay)
		}
		words = append(words, untilKey+text)
	}
	return strings.Join(words, " ")
}

// target returns the hosts and ports.
func (r NetworkRule) target() string {
	text, ports := r.Host, ""
	switch {
	case r.Set != "":
		text = "@" + r.Set
	case r.Prefix.IsValid() && r.Prefix.IsSingleIP():
		text = r.Prefix.Addr().String()
	case r.Prefix.IsValid():
		text = r.Prefix.String()
	}
	if r.FirstPort != 0 {
		ports = fmt.Sprintf(":%d", r.FirstPort)
		if r.LastPort != r.FirstPort {
			ports += fmt.Sprintf("-%d", r.LastPort)
		}
		if strings.Contains(text, ":") {
			text = "[" + text + "]"
		}
	}
	return text + ports
}

// MarshalText returns the text of String.
func (r NetworkRule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what ParseNetworkRule reads.
func (r *NetworkRule) UnmarshalText(text []byte) (err error) {
	*r, err = ParseNetworkRule(string(text))
	return err
}
