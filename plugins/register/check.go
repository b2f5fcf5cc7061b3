package register

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/tools"
)

// checkHosts refuses a command with a literal address of a host that the recipe does not declare. It catches
// honest mistakes early; what a command really reaches is up to the network policy.
func (g *Registrar) checkHosts(r plugins.Recipe) error {
	allowed := plugins.PackageHosts()
	for _, host := range g.Mirrors() {
		if !slices.Contains(allowed, host) {
			allowed = append(allowed, host)
		}
	}
	for _, d := range r.Permissions.Network.Domains() {
		allowed = append(allowed, string(d))
	}
	for _, c := range commands(r) {
		if outside := plugins.HostsOutside(c.text, allowed); len(outside) > 0 {
			return fault.Newf(fault.InvalidArgs, op, c.path, "it names the host %s, which is not allowed", outside[0]).
				Advise(`Add it to "permissions", as in "network": "api.example.com", or remove it. Always allowed: ` + list(allowed) +
					". The network policy enforces what the command can reach.")
		}
	}
	return nil
}

// line is a command of a recipe with its path.
type line struct{ path, text string }

// commands returns all commands of a recipe.
func commands(r plugins.Recipe) (list []line) {
	if r.Setup != "" {
		list = append(list, line{"$.setup", r.Setup})
	}
	for i, t := range r.Tools {
		list = append(list, line{fmt.Sprintf("$.tools[%d].run", i), t.Run})
	}
	if r.Daemon != nil {
		list = append(list, line{"$.daemon.command", r.Daemon.Command})
	}
	for i, s := range r.Events.Subscribe {
		if s.Run != "" {
			list = append(list, line{fmt.Sprintf("$.events.subscribe[%d].run", i), s.Run})
		}
	}
	return list
}

// secrets refuses a recipe if one of its secrets has no value. It asks nobody.
func (g *Registrar) secrets(ctx context.Context, a tools.Agent, id config.PluginID, r plugins.Recipe) error {
	var missing []config.SecretName
	for _, name := range r.Secrets {
		has, err := g.Secrets.Has(ctx, a, id, name)
		if err != nil {
			return err
		}
		if !has {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fault.New(fault.InvalidArgs, op, "$.secrets", errors.New("no value is there for "+list(missing))).
		Advise("Ask for each with sandbox_secret_set, without a value: a person gives it. Then register again.")
}
