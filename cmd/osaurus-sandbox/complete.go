package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/mcp/install"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/vm/image/pack"
)

// applyUse checks and completes the arguments of cmd and its subcommands by the words
// in capitals of their Use, so that help, checks and completion agree.
func applyUse(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		applyUse(sub)
	}
	if places := placesOf(cmd.Use); cmd.HasSubCommands() && len(places.words) == 0 {
		cmd.Args = cobra.NoArgs
		if cmd.RunE == nil { // otherwise cobra prints help for an unknown subcommand
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	} else {
		cmd.Args = places.check()
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return complete(cmd, places.at(len(args)), args)
		}
	}
	for _, flag := range []string{"agent", "plugin", "session", "host", "header", "query", "mode"} { // those from host on have no files
		if cmd.Flags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
				return complete(cmd, strings.ToUpper(flag), args)
			})
		}
	}
}

// places are the arguments in a Use line.
type places struct {
	words    []string
	required int
	repeat   bool // the last word may be repeated
	endless  bool // any word may be repeated
}

// placesOf parses a Use line such as "verify AGENT [PLUGIN...]". It takes the first of several
// alternatives and skips flags.
func placesOf(use string) places {
	p := places{endless: strings.Contains(use, "...")}
	alternative, depth := false, 0
	for _, field := range strings.Fields(use)[1:] {
		word := strings.Trim(field, "[]{}")
		depth += strings.Count(field, "[") + strings.Count(field, "{")
		switch {
		case word == "|":
		case alternative || word == strings.ToLower(word) || strings.HasPrefix(word, "-"):
		default:
			p.repeat = strings.HasSuffix(word, "...")
			p.words = append(p.words, strings.TrimSuffix(word, "..."))
			if depth == 0 {
				p.required++
			}
		}
		alternative = word == "|"
		depth -= strings.Count(field, "]") + strings.Count(field, "}")
	}
	return p
}

// check returns a check of the number of arguments.
func (p places) check() cobra.PositionalArgs {
	switch {
	case p.endless:
		return cobra.MinimumNArgs(p.required)
	case len(p.words) == 0:
		return cobra.NoArgs
	case p.required == len(p.words):
		return cobra.ExactArgs(p.required)
	}
	return cobra.RangeArgs(p.required, len(p.words))
}

// at returns the word for argument n, or "".
func (p places) at(n int) string {
	switch {
	case n < len(p.words):
		return p.words[n]
	case p.repeat:
		return p.words[len(p.words)-1]
	}
	return ""
}

// complete offers what a word of a Use can stand for. Names of secrets are not
// offered, since listing them may ask to unlock a keyring.
func complete(cmd *cobra.Command, word string, args []string) ([]string, cobra.ShellCompDirective) {
	const limit = 2 * time.Second // a person has pressed Tab and waits
	directive := cobra.ShellCompDirectiveNoFileComp
	switch word {
	case "FILE", "FOLDER", "SOURCE", "COMMAND", "ARG":
		return nil, cobra.ShellCompDirectiveDefault // files
	case "CLIENT":
		return install.IDs(), directive
	case "CHOICE":
		return []string{"once", "session", "always", "no", "never", "yes"}, directive
	case "MODE":
		return []string{"review", "read", "write"}, directive
	case "SET":
		return offers(policy.Sets(), func(s policy.Set) string { return described("@"+s.Name, s.Meaning) }), directive
	case "KEY":
		return config.Keys(), directive
	case "KEY=VALUE":
		settings := config.Describe()
		if cmd.Parent().Name() == "agent" {
			settings = config.DescribeAgent()
		}
		return slices.Concat(offers(settings, func(d config.Description) string { return d.Key + "=" }), settingValues(settings)), directive | cobra.ShellCompDirectiveNoSpace
	case "RULE":
		if cmd.Name() != "forget" {
			return complete(cmd, "SET", args)
		}
	case "PACK", "PACK-OR-FILE":
		store, err := packs()
		if err != nil {
			return nil, directive
		}
		list, _ := store.List()
		return offers(list, func(p pack.Pack) string { return p.Manifest.Name }), directive
	case "SRC", "DST":
		directive = cobra.ShellCompDirectiveNoSpace // files too, and a path follows
	}
	first := ""
	if len(args) > 0 {
		first = args[0]
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), limit)
	defer cancel()
	client, err := reach(ctx, clientName) // starts no daemon
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer client.Close()
	return known(ctx, client, word, first), directive
}

// settingValues lists KEY=VALUE for settings that have few values.
func settingValues(settings []config.Description) (list []string) {
	for _, d := range settings {
		values := regexp.MustCompile(`"([a-z-]+)"|true|false`).FindAllString(d.Allowed, -1)
		list = append(list, offers(values, func(value string) string { return d.Key + "=" + strings.Trim(value, `"`) })...)
	}
	return list
}

// offers turns items into completions.
func offers[I any](items []I, text func(I) string) (list []string) {
	for _, item := range items {
		list = append(list, text(item))
	}
	return list
}

// described is a completion with a description.
func described(name, description string) string { return name + "\t" + oneLine(description) }

// known lists what the daemon knows that a word can stand for. The owner is the
// argument before it. Errors are ignored: completion offers nothing then.
func known(ctx context.Context, client *control.Client, word, owner string) []string {
	switch word {
	case "AGENT":
		r, _ := client.Agents.List(ctx, &controlpb.ListAgentsRequest{})
		return offers(r.GetAgents(), (*controlpb.Agent).GetName)
	case "SNAPSHOT":
		r, _ := client.Snapshots.List(ctx, &controlpb.ListAgentSnapshotsRequest{Agent: owner})
		return offers(r.GetSnapshots(), (*controlpb.AgentSnapshot).GetName)
	case "RULE":
		r, _ := client.Network.Rules(ctx, &controlpb.NetworkRulesRequest{Agent: owner})
		own := slices.DeleteFunc(r.GetRules(), func(rule *controlpb.NetworkRule) bool { return rule.Source != "agent" })
		return offers(own, (*controlpb.NetworkRule).GetRule)
	case "SRC", "DST":
		return offers(known(ctx, client, "AGENT", ""), func(name string) string { return name + ":" })
	case "SESSION":
		r, _ := client.Shells.List(ctx, &controlpb.ListSessionsRequest{Agent: owner})
		return offers(r.GetSessions(), (*controlpb.Session).GetSession)
	case "JOB":
		r, _ := client.Jobs.List(ctx, &controlpb.ListJobsRequest{Agent: owner})
		return offers(r.GetJobs(), func(j *controlpb.Job) string { return described(j.Id, j.Command) })
	case "CALL":
		list, _ := collect(control.Messages(client.History.List(ctx, &controlpb.ListHistoryRequest{Agent: owner})), (*controlpb.ListHistoryResponse).GetCall)
		list = slices.DeleteFunc(list, func(h *controlpb.HistoryCall) bool { return !h.Changed })
		return offers(list, func(h *controlpb.HistoryCall) string { return described(fmt.Sprint(h.Call), h.Tool+" "+h.Summary) })
	case "TOOL":
		r, _ := client.Tools.List(ctx, &controlpb.ListToolsRequest{Agent: owner})
		return offers(r.GetTools(), func(t *controlpb.Tool) string { return described(t.Name, t.Title) })
	case "PLUGIN":
		r, _ := client.Plugins.List(ctx, &controlpb.ListPluginsRequest{})
		return offers(r.GetPlugins(), func(p *controlpb.Plugin) string { return described(p.Id, p.Description) })
	case "FROM", "TO", "REVISION":
		r, _ := client.Plugins.History(ctx, &controlpb.PluginHistoryRequest{Plugin: owner})
		return offers(r.GetRevisions(), func(p *controlpb.PluginHistoryResponse_Revision) string { return fmt.Sprint(p.Revision) })
	case "MOUNT":
		r, _ := client.Mounts.List(ctx, &controlpb.ListMountsRequest{Agent: owner})
		return offers(r.GetMounts(), func(m *controlpb.Mount) string { return described(m.Name, m.Mode+", "+m.Folder) })
	case "PROMPT":
		r, _ := client.Prompts.List(ctx, &controlpb.ListPromptsRequest{})
		return offers(r.GetPrompts(), func(p *controlpb.Prompt) string { return described(p.Id, askedFor(p)+", for "+p.Agent) })
	case "FACT":
		list, _ := collect(facts(ctx, client, owner), (*controlpb.ListFactsResponse).GetFact)
		return offers(list, func(f *controlpb.Fact) string { return described(fmt.Sprint(f.Id), f.Content) })
	case "TASK":
		list, _ := collect(control.Messages(client.Tasks.List(ctx, &controlpb.ListTasksRequest{})), (*controlpb.ListTasksResponse).GetTask)
		return offers(list, func(t *controlpb.Task) string { return described(t.Id, t.Text) })
	case "ARTIFACT":
		list, _ := collect(control.Messages(client.Artifacts.List(ctx, &controlpb.ListArtifactsRequest{})), (*controlpb.ListArtifactsResponse).GetArtifact)
		return offers(list, func(a *controlpb.Artifact) string { return described(fmt.Sprint(a.Id), a.Name+" of "+a.Agent) })
	}
	return nil
}
