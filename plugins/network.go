package plugins

import (
	"regexp"
	"slices"
	"strings"
)

// maxDomain is the limit of DNS.
const maxDomain = 253

var domainText = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// IsDomain reports whether a text is the exact name of a host with at least two labels: no address,
// no wildcard.
func IsDomain(text string) bool { return len(text) <= maxDomain && domainText.MatchString(text) }

// canonicalNetwork normalizes a network: lower case, no spaces, each domain once.
func canonicalNetwork(text string) Network { return networkOf(strings.Split(text, ",")) }

func networkOf(parts []string) Network {
	var domains []string
	for _, p := range parts {
		if p = strings.ToLower(strings.TrimSpace(p)); !slices.Contains(domains, p) && p != "" {
			domains = append(domains, p)
		}
	}
	return Network(strings.Join(domains, ","))
}
