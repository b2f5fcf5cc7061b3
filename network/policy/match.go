package policy

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"osaurus-sandbox/config"
)

// matches reports whether a rule speaks of a flow. The address is plain. Methods and paths count
// once they are known: a rule to deny them does not speak of a flow before.
func matches(r *config.NetworkRule, t *Target) bool {
	if r.Protocol != "" && r.Protocol != string(t.Protocol) || r.HTTP() && t.Protocol != TCP {
		return false
	}
	if r.FirstPort != 0 && (t.Protocol == ICMP || t.Port < r.FirstPort || t.Port > r.LastPort) {
		return false
	}
	return matchesHost(r, t) && matchesRequest(r, t)
}

func matchesHost(r *config.NetworkRule, t *Target) bool {
	switch {
	case r.Prefix.IsValid():
		return t.Addr.IsValid() && r.Prefix.Contains(t.Addr)
	case r.Host == config.Localhost:
		return t.Addr.IsLoopback()
	case r.Set != "":
		return t.Name != "" && inSet(r.Set, t.Name)
	}
	return r.Host == "*" || t.Name != "" && matchesName(r.Host, t.Name)
}

// matchesName compares a name with "HOST" or "*.HOST".
func matchesName(host, name string) bool {
	if strings.HasPrefix(host, "*.") {
		return len(name) > len(host)-1 && strings.HasSuffix(name, host[1:])
	}
	return host == name
}

func matchesRequest(r *config.NetworkRule, t *Target) bool {
	switch {
	case !r.HTTP():
		return true
	case t.Method == "":
		return !r.Deny // the gateway asks again for each request
	case len(r.Methods) > 0 && !slices.Contains(r.Methods, strings.ToUpper(t.Method)):
		return false
	}
	return r.Path == "" || matchesPath(r, t.Path)
}

// matchesPath compares a path as the server may read it. A path that servers read differently is
// not allowed, but denied if any reading is.
func matchesPath(r *config.NetworkRule, text string) bool {
	raw, _, _ := strings.Cut(text, "?")
	decoded, err := url.PathUnescape(raw)
	if err != nil {
		return r.Deny
	}
	plain := strings.ReplaceAll(decoded, `\`, "/")
	clean := path.Clean("/" + plain)
	if strings.HasSuffix(plain, "/") && clean != "/" {
		clean += "/"
	}
	if r.Deny {
		return matchesPattern(r.Path, raw) || matchesPattern(r.Path, decoded) || matchesPattern(r.Path, clean)
	}
	ambiguous := clean != decoded || strings.Count(raw, "/") != strings.Count(decoded, "/") || strings.ContainsAny(decoded, "%;\x00")
	return !ambiguous && matchesPattern(r.Path, clean)
}

// matchesPattern compares a path with "/PATH" or "/PATH/*".
func matchesPattern(pattern, text string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(text, prefix)
	}
	return pattern == text
}
