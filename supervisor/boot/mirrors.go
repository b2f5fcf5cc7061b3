package boot

import (
	"net/netip"
	"net/url"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/subnet"
)

// mirrorRules allow the mirrors of the settings, which may be in a private network or on this
// computer.
func mirrorRules(mirrors []config.MirrorURL) (rules []config.NetworkRule) {
	for _, m := range mirrors {
		u, err := url.Parse(string(m))
		if err != nil {
			continue // settings have only valid ones
		}
		rule := config.NetworkRule{Host: u.Hostname()}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
			rule = config.NetworkRule{Prefix: netip.PrefixFrom(addr, addr.BitLen())}
			if addr == subnet.Gateway() {
				rule = config.NetworkRule{Host: "localhost"}
			}
		}
		rules = append(rules, rule)
	}
	return rules
}
