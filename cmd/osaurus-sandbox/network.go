package main

import (
	"context"
	"fmt"
	"io"
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
	return noun("network", newNetworkLog(), newNetworkExplain(), newNetworkLearn(),
		rulesCommand("allow", "+"), rulesCommand("deny", "+"), daemonCommand("rules AGENT", replyRules), rulesCommand("forget", "-"), newNetworkSets())
}

func newNetworkLog() *cobra.Command {
	var follow, refused bool
	return daemonCommand("log AGENT", func(ctx context.Context, c *call) error {
		flows := control.Messages(c.Network.Flows(ctx, &controlpb.NetworkFlowsRequest{Agent: c.args[0], Follow: follow, Refused: refused}))
		if follow {
			return replyEach(c, flows, func(w io.Writer, r *controlpb.NetworkFlowsResponse) error { return printFlow(w, r.GetFlow()) })
		}
		return replyRows(c, flows, (*controlpb.NetworkFlowsResponse).GetFlow, "TIME\tVERDICT\tPLUGIN\tDESTINATION\tADDRESS\tSENT\tRECEIVED\tWHY", func(f *controlpb.NetworkFlow) []any {
			return []any{when(f.Ended), f.Verdict, f.Plugin, f.Destination, f.Address, f.Sent, f.Received, flowReason(f)}
		})
	},
		withFlag(&follow, "follow, f", "keep printing new connections"),
		withFlag(&refused, "refused", "print only what was refused, or would be if the agent were not observed"))
}

// printFlow prints a flow on one line.
func printFlow(w io.Writer, f *controlpb.NetworkFlow) error {
	return writef(w, "%s  %-8s  %s  %s\n", f.Ended.AsTime().Local().Format(time.TimeOnly), f.Verdict, f.Destination, flowReason(f))
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
	return daemonCommand("explain AGENT URL", func(ctx context.Context, c *call) error {
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
	return daemonCommand("learn AGENT", func(ctx context.Context, c *call) error {
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

// rulesCommand returns a command that adds rules of an agent (change is "+") or removes them ("-"), and prints
// its rules. Those that it adds begin with its name.
func rulesCommand(name, change string) *cobra.Command {
	return daemonCommand(name+" AGENT RULE...", func(ctx context.Context, c *call) error {
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
	return command("sets [SET]", func(_ context.Context, c *call) error {
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
