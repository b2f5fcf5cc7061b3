package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"osaurus-sandbox/config"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/supervisor/egress"
	"osaurus-sandbox/vm"
)

const (
	// resolveTimeout bounds how long the sources of packages may take to resolve.
	resolveTimeout = 3 * time.Second
	// maxSources bounds how many are resolved.
	maxSources = 16
)

// checkNetwork finds package sources, of the settings and of apt's folder, and proxies of this computer that agents do
// not reach, since they are in a local network. The gateway itself uses a proxy for agents, so that one is no problem.
func checkNetwork(ctx context.Context, home config.Settings, apt string) vm.Finding {
	f := vm.Finding{What: "package sources", Status: vm.FindingOK}
	p := policy.Of(home, config.AgentDefaults())
	p.Local = network.LocalNetworks()
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	sources := aptSources(apt)
	for _, m := range home.Mirrors {
		sources = append(sources, string(m))
	}
	var found []string
	for _, t := range targets(sources) {
		if closed, reason := isClosed(ctx, p, t); reason != "" {
			found = append(found, fmt.Sprintf("agents do not reach %s: %s", t, reason))
			if rule, ok := p.RuleFor(closed); ok && f.Fix == "" {
				f.Fix = fmt.Sprintf("osaurus-sandbox config set 'networkRules+=%s'", rule)
			}
			f.Status = vm.FindingLimited
		}
	}
	env := httpproxy.FromEnvironment()
	for _, t := range targets([]string{env.HTTPProxy, env.HTTPSProxy}) {
		if _, reason := isClosed(ctx, p, t); reason != "" {
			found = append(found, fmt.Sprintf("the gateway uses the proxy %s, which agents do not reach themselves: %s", t, reason))
		}
	}
	f.Detail = cmp.Or(strings.Join(found, "; "), "agents reach everything that this computer uses")
	return f
}

// isClosed returns why agents do not reach a target, and its address, if that is in a closed range.
func isClosed(ctx context.Context, p policy.Policy, t policy.Target) (policy.Target, string) {
	addrs := []netip.Addr{t.Addr}
	if t.Name != "" {
		addrs, _ = net.DefaultResolver.LookupNetIP(ctx, "ip", t.Name)
	}
	for _, addr := range addrs {
		t.Addr = addr.Unmap()
		if d := p.Decide(t, time.Now()); d.Action == policy.Deny && d.Rule == nil {
			return t, d.Reason
		}
	}
	return t, ""
}

// aptSource matches the address of a source in apt's lists.
var aptSource = regexp.MustCompile(`(?m)^(?:deb|URIs:).*?(https?://[^\s]+)`)

// aptSources returns the addresses in apt's lists of sources.
func aptSources(dir string) (texts []string) {
	for _, pattern := range []string{"sources.list", "sources.list.d/*.list", "sources.list.d/*.sources"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, file := range files {
			text, _ := os.ReadFile(file) // what cannot be read is not used
			for _, m := range aptSource.FindAllStringSubmatch(string(text), -1) {
				texts = append(texts, m[1])
			}
		}
	}
	return texts
}

// targets returns what these URLs connect to, each once.
func targets(urls []string) (list []policy.Target) {
	for _, text := range urls {
		t, err := egress.ParseTarget(text)
		if t.Method, t.Path = "", ""; err == nil && len(list) < maxSources && !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list
}
