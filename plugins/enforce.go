package plugins

import (
	"fmt"
	"slices"
	"strings"

	"osaurus-sandbox/bridge"
)

// Online reports whether the plugin's tools, daemon and handlers have the network of their
// agent's room. All others have none: rules for single domains cannot be enforced yet, so a
// list of them counts as none.
func (p Permissions) Online() bool { return p.Network == NetworkOutbound }

// Caveats says, in sentences for people, what of a recipe is not enforced as it
// is written. They are told whenever it is installed.
func (r Recipe) Caveats() (list []string) {
	if domains := r.Permissions.Network.Domains(); len(domains) > 0 {
		list = append(list, fmt.Sprintf("Single domains cannot be enforced yet: the list %s counts as none, and its tools have no network.", r.Permissions.Network))
	}
	if strings.TrimSpace(r.Setup) != "" && !r.Permissions.Online() {
		list = append(list, "Its setup has the network of the agent's room, which cannot be kept to single hosts yet.")
	}
	return list
}

// May reports whether the plugin may tell events of a type.
func (e Events) May(topic bridge.Topic) bool {
	return slices.ContainsFunc(e.Emit, func(t Topics) bool { return t.Holds(topic) })
}
