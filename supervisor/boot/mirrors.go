package boot

import (
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
		host := u.Hostname()
		if host == subnet.Gateway().String() {
			host = config.Localhost
		}
		if rule, err := config.ParseNetworkRule("allow " + host); err == nil {
			rules = append(rules, rule)
		}
	}
	return rules
}
