package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/network/policy"
)

// rulesKey is the setting with an agent's rules. A "+" or "-" behind it adds or removes some.
const rulesKey = "network.rules"

func newNetwork() *cobra.Command {
	return noun("network", `See and change what agents reach

All traffic of an agent passes a gateway on this computer. The agent's setting network says what it reaches: open (the internet),
allow (only what rules allow), ask (what rules allow, and what you allow when asked) or none (nothing). No mode reaches this computer
or local networks; rules can. A rule that denies wins over all that allow.

A rule is HOST, *.HOST, an address, a network such as 10.1.0.0/16, or a set such as @github, with or without a port or a range of
ports: example.org:443, example.org:8000-8080. Quote a rule of several words: "tcp example.org:22", "example.org until=2026-12-31".
localhost is this computer. All forms: docs/network.md.`,
		`  osaurus-sandbox agent set alice network=allow
  osaurus-sandbox network allow alice @package-registries api.example.org:443
  osaurus-sandbox network explain alice https://api.example.org/v1
  osaurus-sandbox network log alice -f`,
		newNetworkLog(), newNetworkExplain(), newNetworkLearn(), newNetworkAllow(), newNetworkDeny(), newNetworkRules(), newNetworkForget(), newNetworkSets())
}

func newNetworkLog() *cobra.Command {
	var follow, refused bool
	return daemonCommand("log AGENT", `Show what an agent connected to, oldest first

A connection appears when it is refused or ends. The newest of each agent are kept while the daemon runs. With @guest in place of an
agent it shows the guest's own system.`,
		`  osaurus-sandbox network log alice
  osaurus-sandbox network log alice -f --refused`, func(ctx context.Context, c *call) error {
			flows := control.Messages(c.Network.Flows(ctx, &controlpb.NetworkFlowsRequest{Agent: c.args[0], Follow: follow, Refused: refused}))
			if follow {
				return replyEach(c, flows, func(w io.Writer, r *controlpb.NetworkFlowsResponse) error { return printFlow(w, r.GetFlow()) })
			}
			return replyRows(c, flows, (*controlpb.NetworkFlowsResponse).GetFlow, "TIME\tVERDICT\tPLUGIN\tDESTINATION\tADDRESS\tSENT\tRECEIVED\tWHY", func(f *controlpb.NetworkFlow) []any {
				return []any{when(f.Ended), f.Verdict, f.Plugin, flowTarget(f), f.Address, f.Sent, f.Received, flowReason(f)}
			})
		},
		withFlag(&follow, "follow, f", "keep printing new connections"),
		withFlag(&refused, "refused", "print only what was refused, or would be if the agent were not observed"))
}

// printFlow prints a flow on one line.
func printFlow(w io.Writer, f *controlpb.NetworkFlow) error {
	return writef(w, "%s  %-8s  %s  %s\n", f.Ended.AsTime().Local().Format(time.TimeOnly), f.Verdict, flowTarget(f), flowReason(f))
}

// flowTarget describes what a flow goes to.
func flowTarget(f *controlpb.NetworkFlow) string {
	target := f.Name
	if target == "" {
		target = f.Address
		if addr, err := netip.ParseAddr(target); err == nil && addr.IsLoopback() {
			target = config.Localhost // as in rules
		}
	}
	if f.Port != 0 {
		if strings.Contains(target, ":") {
			target = "[" + target + "]"
		}
		target = fmt.Sprintf("%s:%d", target, f.Port)
	}
	switch f.Protocol {
	case "tcp":
	case "":
		target = "dns " + target
	default:
		target = f.Protocol + " " + target
	}
	return strings.TrimSpace(f.Method + " " + target + f.Path)
}

// flowReason says why a flow was decided as it was, or why it failed.
func flowReason(f *controlpb.NetworkFlow) string {
	switch {
	case f.Error != "" && f.Verdict != "refused":
		return f.Error
	case f.Rule != "":
		return f.Rule
	}
	return f.Reason
}

func newNetworkExplain() *cobra.Command {
	var plugin string
	return daemonCommand("explain AGENT URL", `Say whether an agent may connect, and which rule decides

URL may also be HOST, HOST:PORT, an address or "udp HOST:PORT". The port is 443 if none is given. The name is resolved on this
computer, and nothing connects.`,
		`  osaurus-sandbox network explain alice https://api.example.org/v1
  osaurus-sandbox network explain alice 10.1.2.3:5432`, func(ctx context.Context, c *call) error {
			r, err := c.Network.Explain(ctx, &controlpb.ExplainNetworkRequest{Agent: c.args[0], Destination: c.args[1], Plugin: plugin})
			return reply(c, r, err, printExplanation)
		},
		withFlag(&plugin, "plugin", "explain what this plugin's commands may do"))
}

func printExplanation(w io.Writer, e *controlpb.ExplainNetworkResponse) error {
	paint := paintFor(w)
	what := map[string]safe{"allow": paint.good("allowed"), "deny": paint.bad("refused"), "ask": paint.busy("a person is asked")}[e.Action]
	if e.Observed {
		what = paint.busy("allowed, but only because the agent is observed")
	}
	at := ""
	if e.Address != "" && !strings.Contains(e.Destination, e.Address) {
		at = " at " + e.Address
	}
	writef(w, "%s%s: %s\n", e.Destination, at, what)
	table := newTable(w)
	switch {
	case e.Rule == "":
		table.row("  decided by", "network="+e.Mode)
	default:
		table.row("  decided by", fmt.Sprintf("the rule %q%s", e.Rule, sourceText(e.Source)))
	}
	if e.Reason != "" {
		table.row("  because", e.Reason)
	}
	if len(e.Addresses) > 1 {
		table.row("  addresses", strings.Join(e.Addresses, ", "))
	}
	if e.Advice != "" {
		table.row("  change it", e.Advice)
	}
	return table.Flush()
}

// sourceText says where a rule comes from.
func sourceText(source string) string {
	switch source {
	case "home":
		return " for all agents"
	case "session":
		return ", your answer for this session"
	}
	return ""
}

func newNetworkLearn() *cobra.Command {
	return daemonCommand("learn AGENT", `Suggest rules for what an agent tried to reach

Prints the smallest rules that let through what the agent was refused, each with what it was for. With the setting network.observe,
nothing is refused meanwhile, not even this computer and local networks. Adds no rule.`,
		`  osaurus-sandbox agent set alice network=allow network.observe=true
  osaurus-sandbox network learn alice`, func(ctx context.Context, c *call) error {
			r, err := c.Network.Learn(ctx, &controlpb.LearnNetworkRequest{Agent: c.args[0]})
			return reply(c, r, err, func(w io.Writer, r *controlpb.LearnNetworkResponse) error {
				if len(r.Suggestions) == 0 {
					return writef(c.err, "Nothing was refused. See what it reached: osaurus-sandbox network log %s\n", c.args[0])
				}
				if err := printTable(w, "RULE\tCONNECTIONS\tFIRST\tLAST\tFOR EXAMPLE", r.Suggestions, func(s *controlpb.NetworkSuggestion) []any {
					return []any{s.Rule, s.Flows, when(s.First), when(s.Last), s.Example}
				}); err != nil {
					return err
				}
				return writef(c.err, "Add one: osaurus-sandbox network allow %s \"RULE\"\n", c.args[0])
			})
		})
}

func newNetworkAllow() *cobra.Command {
	return rulesCommand("allow", "+", `Add rules that let an agent connect

See what a rule is: osaurus-sandbox network --help. The rules take effect at once.`,
		`  osaurus-sandbox network allow alice @package-registries
  osaurus-sandbox network allow alice api.example.org:443 "*.example.net"
  osaurus-sandbox network allow alice localhost:11434`)
}

func newNetworkDeny() *cobra.Command {
	return rulesCommand("deny", "+", `Add rules that keep an agent from connecting

A rule that denies wins over every rule that allows. Open connections that it forbids end.`,
		`  osaurus-sandbox network deny alice "*.example.net"
  osaurus-sandbox network deny alice "example.org until=2026-12-31"`)
}

func newNetworkForget() *cobra.Command {
	return rulesCommand("forget", "-", `Remove rules of an agent

A rule for all agents goes by osaurus-sandbox config set 'networkRules-=RULE', and an answer to a prompt with the daemon.`,
		`  osaurus-sandbox network forget alice "allow api.example.org:443"`)
}

// rulesCommand returns a command that adds rules of an agent (change is "+") or removes them ("-"), and prints
// its rules. Those that it adds begin with its name.
func rulesCommand(name, change, help, examples string) *cobra.Command {
	return daemonCommand(name+" AGENT RULE...", help, examples, func(ctx context.Context, c *call) error {
		rules := make([]string, len(c.args)-1)
		for i, text := range c.args[1:] {
			if change == "+" {
				text = name + " " + strings.TrimPrefix(text, name+" ")
			}
			r, err := config.ParseNetworkRule(text)
			if err != nil {
				return err
			}
			rules[i] = r.String()
		}
		if _, err := c.Agents.Set(ctx, &controlpb.SetAgentRequest{
			Agent: c.args[0], Settings: map[string]string{rulesKey + change: strings.Join(rules, ",")}, // rules have no commas
		}); err != nil {
			return err
		}
		return replyRules(ctx, c)
	})
}

// replyRules prints the rules that count for an agent.
func replyRules(ctx context.Context, c *call) error {
	r, err := c.Network.Rules(ctx, &controlpb.NetworkRulesRequest{Agent: c.args[0]})
	return reply(c, r, err, printRules)
}

func newNetworkRules() *cobra.Command {
	return daemonCommand("rules AGENT", `List the rules that count for an agent

The rules for all agents come first: see osaurus-sandbox config get networkRules. A rule that denies wins over all others.`,
		`  osaurus-sandbox network rules alice`, replyRules)
}

func printRules(w io.Writer, r *controlpb.NetworkRulesResponse) error {
	mode := r.Mode
	if r.Observe {
		mode += ", observed: nothing is refused"
	}
	writef(w, "network=%s\n", mode)
	table := newTable(w)
	for _, rule := range r.Rules {
		from := map[string]string{"home": "all agents", "agent": "agent", "session": "this session"}[rule.Source]
		if rule.Plugin != "" {
			from += ", plugin " + rule.Plugin
		}
		if rule.Expired {
			from += ", expired"
		}
		table.row(from, rule.Rule)
	}
	return table.Flush()
}

func newNetworkSets() *cobra.Command {
	return command("sets [SET]", "List the sets of hosts that rules can name, or the hosts of one",
		`  osaurus-sandbox network sets
  osaurus-sandbox network sets github`, func(_ context.Context, c *call) error {
			sets := policy.Sets()
			name := strings.TrimPrefix(c.arg(0), "@")
			if name == "" {
				return reply(c, sets, nil, func(w io.Writer, sets []policy.Set) error {
					return printTable(w, "SET\tHOSTS\tFOR", sets, func(s policy.Set) []any { return []any{"@" + s.Name, len(s.Hosts), s.Meaning} })
				})
			}
			i := slices.IndexFunc(sets, func(s policy.Set) bool { return s.Name == name })
			if i < 0 {
				return fault.Newf(fault.NotFound, "find set", name, "there is no such set").Advise("List them: osaurus-sandbox network sets")
			}
			return reply(c, sets[i], nil, func(w io.Writer, s policy.Set) error {
				return printTable(w, "", s.Hosts, func(host string) []any { return []any{host} })
			})
		})
}
