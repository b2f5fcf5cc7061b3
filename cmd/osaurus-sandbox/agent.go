package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

func newAgent() *cobra.Command {
	return noun("agent",
		newAgentCreate(),
		daemonCommand("list", func(ctx context.Context, c *call) error {
			r, err := c.Agents.List(ctx, &controlpb.ListAgentsRequest{})
			return replyTable(c, r, err, "NAME\tUSER\tUID\tNETWORK\tCREATED\tID", r.GetAgents(), func(a *controlpb.Agent) []any {
				return []any{a.Name, a.User, a.Uid, networkText(a), a.Created.AsTime().Local().Format(time.DateOnly), a.Id}
			})
		}),
		daemonCommand("show AGENT", func(ctx context.Context, c *call) error {
			r, err := c.Agents.Show(ctx, &controlpb.ShowAgentRequest{Agent: c.args[0]})
			return reply(c, r.GetAgent(), err, printAgent)
		}),
		newAgentFork(),
		daemonCommand("rename AGENT NAME", func(ctx context.Context, c *call) error {
			r, err := c.Agents.Rename(ctx, &controlpb.RenameAgentRequest{Agent: c.args[0], Name: c.args[1]})
			return reply(c, r.GetAgent(), err, printAgent)
		}),
		newAgentSet(), newAgentReset(), newAgentExport(), newAgentImport(), newAgentDelete())
}

func newAgentCreate() *cobra.Command {
	var id string
	return daemonCommand("create NAME [KEY=VALUE...]", func(ctx context.Context, c *call) error {
		settings, err := assignments(c.args[1:])
		if err != nil {
			return err
		}
		r, err := c.Agents.Create(ctx, &controlpb.CreateAgentRequest{Name: c.args[0], Id: id, Settings: settings})
		if err == nil {
			noteGaps(ctx, c, slices.Sorted(maps.Keys(settings)))
		}
		return reply(c, r.GetAgent(), err, printAgent)
	},
		describe(config.DescribeAgent()),
		withFlag(&id, "id", "the agent's id, a UUID (default a new one)"))
}

func newAgentSet() *cobra.Command {
	return daemonCommand("set AGENT KEY=VALUE...", func(ctx context.Context, c *call) error {
		settings, err := assignments(c.args[1:])
		if err != nil {
			return err
		}
		r, err := c.Agents.Set(ctx, &controlpb.SetAgentRequest{Agent: c.args[0], Settings: settings})
		if err := replyChanged(c, changedKeys(r.GetChanged()), err, config.AgentEffectOf); err != nil {
			return err
		}
		noteGaps(ctx, c, changedKeys(r.GetChanged()))
		if c.json {
			return nil
		}
		return showNetwork(ctx, c, r.GetChanged())
	}, describe(config.DescribeAgent()))
}

// noteGaps says which of the settings have no effect on this computer.
func noteGaps(ctx context.Context, c *call, keys []string) {
	if len(withoutEffect(vm.Capabilities{}, keys)) == 0 {
		return // they have on every computer
	}
	can, err := driver().Capabilities(ctx, vm.HostArch())
	if err != nil {
		return // status says why no guest runs
	}
	for _, key := range withoutEffect(can, keys) {
		writef(c.err, "note: %s is kept but not enforced on this computer: see osaurus-sandbox doctor\n", key)
	}
}

// withoutEffect returns the keys of settings that a driver does not enforce.
func withoutEffect(can vm.Capabilities, keys []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		return !slices.ContainsFunc(can.Gaps(), func(gap string) bool { return strings.Contains(gap, key) })
	})
}

// showNetwork prints what an agent reaches now, if that was changed.
func showNetwork(ctx context.Context, c *call, changed []*controlpb.Setting) error {
	if !slices.ContainsFunc(changed, func(s *controlpb.Setting) bool { return strings.HasPrefix(s.Key, "network") }) {
		return nil
	}
	r, err := c.Agents.Show(ctx, &controlpb.ShowAgentRequest{Agent: c.args[0]})
	if err != nil {
		return err
	}
	return writef(c.out, "network is now: %s\n", networkText(r.GetAgent()))
}

func newAgentReset() *cobra.Command {
	return daemonCommand("reset AGENT", func(ctx context.Context, c *call) error {
		_, err := c.Agents.Reset(ctx, &controlpb.ResetAgentRequest{Agent: c.args[0]})
		return reply(c, map[string]string{"agent": c.args[0]}, err, nil)
	},
		asks("reset AGENT", "What the agent runs ends, and what it installed or changed outside its home folder will be gone."))
}

func newAgentDelete() *cobra.Command {
	var workspace, secrets bool
	return daemonCommand("delete AGENT", func(ctx context.Context, c *call) error {
		agent, err := c.Agents.Show(ctx, &controlpb.ShowAgentRequest{Agent: c.args[0]})
		if err != nil {
			return err
		}
		r, err := c.Agents.Delete(ctx, &controlpb.DeleteAgentRequest{Agent: c.args[0], Workspace: workspace, Secrets: secrets})
		return reply(c, r, err, func(io.Writer, *controlpb.DeleteAgentResponse) error {
			if r.Pending {
				writef(c.err, "What it has in the guest is removed the next time the guest starts.\n")
			}
			if secrets {
				return writef(c.err, "Its secrets are deleted: %d.\n", r.SecretsDeleted)
			}
			return writef(c.err, "Its secrets are kept: osaurus-sandbox secret list %s\n", agent.Agent.GetId())
		})
	},
		withFlag(&workspace, "workspace", "delete its home folder too"),
		withFlag(&secrets, "secrets", "delete its secrets too, and those of its plugins"),
		asks("delete AGENT", "What the agent runs ends, and what it installed is deleted. Its home folder stays without --workspace, and its secrets without --secrets."))
}

// describe lists settings for help: allowed values, default and meaning.
func describe(keys []config.Description) option {
	text := "Settings:\n"
	for _, k := range keys {
		usual, from := "", ""
		if k.Default != "" {
			usual = " (default " + k.Default + ")"
		}
		if k.Effect == config.NextStart {
			from = "; takes effect at the next start of the guest"
		}
		text += fmt.Sprintf("\n  %s: %s%s\n      %s%s", k.Key, k.Allowed, usual, k.Meaning, from)
	}
	return moreHelp(text)
}

// assignments parses KEY=VALUE arguments.
func assignments(args []string) (map[string]string, error) {
	texts := map[string]string{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, fault.Newf(fault.InvalidArgs, "set", arg, "no value").Advise("Write KEY=VALUE.")
		}
		texts[key] = value
	}
	return texts, nil
}

func printAgent(w io.Writer, a *controlpb.Agent) error {
	table := newTable(w)
	table.row("name", a.Name)
	table.row("id", a.Id)
	table.row("user", fmt.Sprintf("%s, uid %d", a.User, a.Uid))
	table.row("home", a.Home)
	table.row("folder", a.Folder)
	table.row("created", when(a.Created))
	for _, s := range a.Settings {
		text := settingText(a, s.Key)
		if s.Key == rulesKey {
			text = rulesText(s)
		}
		if means := config.AgentZero(s.Key); text == "0" && means != "" {
			text += ", " + means
		}
		table.row(s.Key, text)
	}
	return table.Flush()
}

// networkText describes what an agent reaches, for a table: "allow, 3 rules".
func networkText(a *controlpb.Agent) string {
	text := settingText(a, "network")
	if settingText(a, "network.observe") == "true" {
		text += ", observed"
	}
	for _, s := range a.Settings {
		if s.Key == rulesKey && s.Value != "[]" {
			text += ", " + rulesText(s)
		}
	}
	return text
}

// rulesText says how many rules a setting has.
func rulesText(s *controlpb.Setting) string {
	var rules []string
	_ = json.Unmarshal([]byte(s.Value), &rules) // it is a list of texts
	if len(rules) == 1 {
		return "1 rule"
	}
	return fmt.Sprintf("%d rules", len(rules))
}

// settingText returns the value of an agent's setting.
func settingText(a *controlpb.Agent, key string) string {
	for _, s := range a.Settings {
		if s.Key == key {
			var list []string
			if json.Unmarshal([]byte(s.Value), &list) == nil {
				return strings.Join(list, ",")
			}
			return strings.Trim(s.Value, `"`) // no value holds a quote
		}
	}
	return ""
}
