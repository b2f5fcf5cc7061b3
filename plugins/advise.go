package plugins

import (
	"fmt"
	"slices"
)

// advise warns of parts that are accepted but do not do what the author meant.
func (v *validator) advise(r Recipe) {
	v.warn(len(r.Tools) == 0 && r.Daemon == nil && len(r.Events.Subscribe) == 0, "$.tools", "nothing",
		"Add a tool, a daemon or a subscription.", "a plugin without any does nothing that a model could see")
	for _, c := range r.Commands() {
		network := r.Permissions.Network
		if c.Path == setupPath {
			network = NetworkOutbound // it has the network of the agent's room
		}
		v.adviseCommand(c, network)
	}
}

// adviseCommand warns about unsafe uses of parameters and about hosts that the plugin cannot reach.
func (v *validator) adviseCommand(c Command, network Network) {
	if len(c.Text) > MaxCommand {
		return
	}
	path := c.Path
	file, err := parseCommand(c.Text)
	if err != nil {
		v.warn(true, path, "shell-syntax", "Fix the command: bash runs it.", "bash cannot parse it: %v", err)
		return
	}
	variables, unsafe := paramUses(file)
	for _, use := range unsafe {
		if use.code {
			fix := fmt.Sprintf(`Read it from the environment (in Python: os.environ[%q]), or pass it as an argument ("$%s").`, use.variable, use.variable)
			v.warn(true, path, "param-in-code", fix, "$%s becomes part of a program: a caller can run any code with it", use.variable)
		} else {
			v.warn(true, path, "unquoted-param", fmt.Sprintf(`Write "$%s", with the quotes.`, use.variable),
				"$%s is split at spaces, and its wildcards become file names", use.variable)
		}
	}
	for _, variable := range variables {
		declared := slices.ContainsFunc(c.Params, func(p ParamName) bool { return p.Variable() == variable })
		v.warn(!declared, path, "unknown-param", "Declare it under parameters, or correct its name.", "$%s is empty: the tool has no such parameter", variable)
	}
	if network == NetworkOutbound {
		return
	}
	allowed := append([]string{"localhost", "127.0.0.1", "::1"}, network.Domains()...)
	for _, host := range HostsOutside(c.Text, allowed) {
		v.warn(true, path, "network", "Add it to permissions.network, or remove it.", "it names the host %s, which permissions.network does not list", brief(host))
	}
}
