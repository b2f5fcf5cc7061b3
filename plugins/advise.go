package plugins

import (
	"fmt"
	"slices"

	"osaurus-sandbox/plugins/command"
)

// advise warns of what is taken and will not do what its author meant.
func (v *validator) advise(r Recipe) {
	if len(r.Tools) == 0 && r.Daemon == nil && len(r.Events.Subscribe) == 0 {
		v.warn("$.tools", "nothing", "Add a tool, a daemon or a subscription.", "a plugin without any does nothing that a model could see")
	}
	v.adviseCommand("$.setup", r.Setup, nil, NetworkOutbound) // which is the room's own
	if r.Daemon != nil {
		v.adviseCommand("$.daemon.command", r.Daemon.Command, nil, r.Permissions.Network)
	}
	for i, s := range r.Events.Subscribe {
		v.adviseCommand(below(item("$.events.subscribe", i), "run"), s.Run, nil, r.Permissions.Network)
	}
	for i, t := range r.Tools {
		v.adviseCommand(below(item("$.tools", i), "run"), t.Run, sortedKeys(t.Parameters), r.Permissions.Network)
		for _, key := range sortedKeys(t.Extra) {
			v.unknown(item("$.tools", i), key)
		}
		for _, name := range sortedKeys(t.Parameters) {
			for _, key := range sortedKeys(t.Parameters[name].Extra) {
				v.unknown(below(below(item("$.tools", i), "parameters"), string(name)), key)
			}
		}
	}
	for _, key := range sortedKeys(r.Permissions.Extra) {
		v.unknown("$.permissions", key)
	}
	if r.Daemon != nil {
		for _, key := range sortedKeys(r.Daemon.Extra) {
			v.unknown("$.daemon", key)
		}
	}
	for _, key := range sortedKeys(r.Events.Extra) {
		v.unknown("$.events", key)
	}
	for i, s := range r.Events.Subscribe {
		for _, key := range sortedKeys(s.Extra) {
			v.unknown(item("$.events.subscribe", i), key)
		}
	}
}

func (v *validator) unknown(path, key string) {
	v.warn(below(path, key), "unknown-key", "See that it is spelled right: osaurus-sandbox plugin schema", "is kept, and means nothing here")
}

// adviseCommand warns of what a command does with arguments, and of hosts that it will not reach.
func (v *validator) adviseCommand(path, text string, params []ParamName, network Network) {
	if text == "" || len(text) > MaxCommand {
		return
	}
	if err := command.Check(text); err != nil {
		v.warn(path, "shell-syntax", "Mend it: bash runs it.", "bash cannot read it: %v", err)
		return
	}
	for _, s := range command.Splices(text, paramPrefix) {
		if s.Code {
			v.warn(path, "param-in-code", fmt.Sprintf(`Have the program read it from its environment (in Python: os.environ[%q]), or hand it over as an argument ("$%s").`, s.Variable, s.Variable),
				"$%s becomes part of a program: whoever sets it can have it do anything", s.Variable)
		} else {
			v.warn(path, "unquoted-param", fmt.Sprintf(`Write "$%s", with the quotes.`, s.Variable),
				"$%s is taken apart at spaces, and its stars become names of files", s.Variable)
		}
	}
	for _, variable := range command.Variables(text, paramPrefix) {
		if !slices.ContainsFunc(params, func(p ParamName) bool { return p.Variable() == variable }) {
			v.warn(path, "unknown-param", "Declare it under parameters, or correct its name.", "$%s is empty: there is no such argument", variable)
		}
	}
	v.adviseHosts(path, text, network)
}

// adviseHosts warns of hosts that the plugin does not ask to reach.
func (v *validator) adviseHosts(path, text string, network Network) {
	if network == NetworkOutbound {
		return
	}
	var domains []string
	for _, d := range network.Domains() {
		domains = append(domains, string(d))
	}
	for _, host := range command.Hosts(text).Outside(append(domains, "localhost", "127.0.0.1", "::1")) {
		v.warn(path, "network", "Name it in permissions.network, or do without.", "it names the host %s, which permissions.network does not ask for", brief(host))
	}
}
