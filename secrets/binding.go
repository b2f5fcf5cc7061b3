package secrets

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// MaxHosts bounds the hosts of a binding. Services have a few: an API, uploads, a registry.
const MaxHosts = 16

// The places of a bound secret in a request.
const (
	InHeader = "header"
	InQuery  = "query"
	InBasic  = "basic"
)

// Binding binds a secret to hosts. Programs get the placeholder. The gateway puts the value in its
// place, in requests to these hosts. None of it is secret.
type Binding struct {
	Hosts []string `json:"hosts"`
	In    string   `json:"in"`
	// Key is the name of the header or of the parameter.
	Key string `json:"key,omitempty"`
	// Require refuses requests to the hosts with another credential or none.
	Require bool `json:"require,omitempty"`
	// Placeholder is made by the vault.
	Placeholder string `json:"placeholder,omitempty"`
}

// Parse checks the binding and returns its usual form.
func (b Binding) Parse() (Binding, error) {
	b.Hosts = slices.Clone(b.Hosts)
	for i, host := range b.Hosts {
		name, err := parseHost(host)
		if err != nil {
			return b, err
		}
		b.Hosts[i] = name
	}
	slices.Sort(b.Hosts)
	b.Hosts = slices.Compact(b.Hosts)
	if b.In == "" {
		b.In = InHeader
	}
	if b.In == InHeader && b.Key == "" {
		b.Key = "Authorization"
	}
	// RFC 9110 names headers so. The same is enough for parameters.
	token := regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")
	var err error
	switch {
	case len(b.Hosts) == 0:
		err = errors.New("no host is named")
	case len(b.Hosts) > MaxHosts:
		err = fmt.Errorf("%d hosts are more than %d", len(b.Hosts), MaxHosts)
	case b.In != InHeader && b.In != InQuery && b.In != InBasic:
		err = fmt.Errorf("%q is not a place in a request", b.In)
	case (b.In == InBasic) != (b.Key == "") || b.Key != "" && !token.MatchString(b.Key):
		err = fmt.Errorf("%q is not the name of a header or parameter", b.Key)
	}
	if err != nil {
		return b, fault.New(fault.InvalidArgs, "bind secret", "", err).Advise("For example: --host api.example.org --header X-Api-Key")
	}
	return b, nil
}

// parseHost parses the name of one host.
func parseHost(text string) (string, error) {
	r, err := config.ParseNetworkRule("allow " + text)
	if err == nil && (r.Host == "" || r.Host == config.Localhost || strings.Contains(r.Host, "*") || r.String() != "allow "+r.Host) {
		err = errors.New("it is not the name of one host")
	}
	if err != nil {
		return "", fault.New(fault.InvalidArgs, "bind secret", text, err).Advise("Name each host without a scheme, port or wildcard: --host api.example.org")
	}
	return r.Host, nil
}

// String describes the binding for people.
func (b Binding) String() string {
	text := strings.Join(b.Hosts, ", ") + " (" + b.In
	if b.Key != "" {
		text += " " + b.Key
	}
	if b.Require {
		text += ", required"
	}
	return text + ")"
}
