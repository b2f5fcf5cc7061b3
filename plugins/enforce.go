package plugins

import (
	"fmt"
	"slices"
	"strings"

	"osaurus-sandbox/bridge"
)

// Online reports whether the plugin's tools, daemon and handlers have the network of their agent's
// room. Otherwise they have none: single domains cannot be enforced yet, so a list counts as none.
func (p Permissions) Online() bool { return p.Network == NetworkOutbound }

// Caveats returns sentences about permissions that are not enforced as written. They are shown
// when the plugin is installed.
func (r Recipe) Caveats() (list []string) {
	if domains := r.Permissions.Network.Domains(); len(domains) > 0 {
		list = append(list, fmt.Sprintf("Single domains cannot be enforced yet: the list %s counts as none, and its tools have no network.", r.Permissions.Network))
	}
	if strings.TrimSpace(r.Setup) != "" && !r.Permissions.Online() {
		list = append(list, "Its setup has the network of the agent's room, which cannot be kept to single hosts yet.")
	}
	return list
}

// May reports whether the plugin may emit a topic.
func (e Events) May(topic bridge.Topic) bool {
	return slices.ContainsFunc(e.Emit, func(t Topics) bool { return t.Holds(topic) })
}
