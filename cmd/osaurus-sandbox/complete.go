package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/mcp/install"
)

// completeLimit is how long a person who has pressed Tab waits.
const completeLimit = 2 * time.Second

// completeByUse has cmd and all commands below it complete their arguments by the
// words in capitals of their own Use: what help says and what Tab offers are one.
func completeByUse(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		completeByUse(sub)
	}
	if !cmd.HasSubCommands() {
		places := placesOf(cmd.Use)
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return complete(cmd, places.at(len(args)), args)
		}
	}
	for _, flag := range []string{"agent", "plugin"} {
		if cmd.Flags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
				return complete(cmd, strings.ToUpper(flag), nil)
			})
		}
	}
}

// places are what the arguments of a command stand for, one after the other.
type places struct {
	words  []string
	repeat bool // the last may be there often
}

// placesOf reads a Use: "verify AGENT [PLUGIN...]". Of alternatives the first
// counts, and flags do not.
func placesOf(use string) places {
	var p places
	alternative := false
	for _, field := range strings.Fields(use)[1:] {
		word := strings.Trim(field, "[]{}")
		switch {
		case word == "|":
			alternative = true
			continue
		case alternative || word == strings.ToLower(word) || strings.HasPrefix(word, "-"):
		default:
			p.repeat = strings.HasSuffix(word, "...")
			p.words = append(p.words, strings.TrimSuffix(word, "..."))
		}
		alternative = false
	}
	return p
}

// at is what argument n stands for; "" is nothing.
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
// offered: to list them a keyring may ask to be unlocked.
func complete(cmd *cobra.Command, word string, args []string) ([]string, cobra.ShellCompDirective) {
	switch word {
	case "FILE", "FOLDER", "SOURCE", "COMMAND", "ARG":
		return nil, cobra.ShellCompDirectiveDefault // files
	case "CLIENT":
		return install.IDs(), cobra.ShellCompDirectiveNoFileComp
	case "KEY":
		return config.Keys(), cobra.ShellCompDirectiveNoFileComp
	case "KEY=VALUE":
		return settingsOf(cmd), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	case "PACK":
		return packNames(), cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeLimit)
	defer cancel()
	client, err := reach(ctx) // which starts no daemon
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer client.Close()
	directive := cobra.ShellCompDirectiveNoFileComp
	if word == "SRC" || word == "DST" {
		directive = cobra.ShellCompDirectiveNoSpace // files too, and a path follows
	}
	return known(ctx, client, word, first(args)), directive
}

// settingsOf are the beginnings of what a command that changes settings takes.
func settingsOf(cmd *cobra.Command) (begun []string) {
	keys := config.Keys()
	if cmd.Parent().Name() == "agent" {
		keys = config.AgentKeys()
	}
	for _, key := range keys {
		begun = append(begun, key+"=")
	}
	return begun
}

func packNames() (names []string) {
	store, err := packs()
	if err != nil {
		return nil
	}
	list, _ := store.List()
	for _, p := range list {
		names = append(names, p.Manifest.Name)
	}
	return names
}

// known lists what the daemon knows that a word can stand for; owner is the
// argument before it, whose they are. What cannot be listed is not offered.
func known(ctx context.Context, client *control.Client, word, owner string) (offers []string) {
	offer := func(name, what string) { offers = append(offers, name+"\t"+oneLine(what)) }
	switch word {
	case "AGENT":
		if r, err := client.Agents.List(ctx, &controlpb.ListAgentsRequest{}); err == nil {
			for _, a := range r.Agents {
				offers = append(offers, a.Name)
			}
		}
	case "SRC", "DST":
		for _, agent := range known(ctx, client, "AGENT", "") {
			offers = append(offers, agent+":")
		}
	case "SESSION":
		if r, err := client.Shells.List(ctx, &controlpb.ListSessionsRequest{Agent: owner}); err == nil {
			for _, s := range r.Sessions {
				offers = append(offers, s.Session)
			}
		}
	case "JOB":
		if r, err := client.Jobs.List(ctx, &controlpb.ListJobsRequest{Agent: owner}); err == nil {
			for _, j := range r.Jobs {
				offer(j.Id, j.Command)
			}
		}
	case "TOOL":
		if r, err := client.Tools.List(ctx, &controlpb.ListToolsRequest{Agent: owner}); err == nil {
			for _, t := range r.Tools {
				offer(t.Name, t.Title)
			}
		}
	case "PLUGIN":
		if r, err := client.Plugins.List(ctx, &controlpb.ListPluginsRequest{}); err == nil {
			for _, p := range r.Plugins {
				offer(p.Id, p.Description)
			}
		}
	case "FROM", "TO", "REVISION":
		if r, err := client.Plugins.History(ctx, &controlpb.PluginHistoryRequest{Plugin: owner}); err == nil {
			for _, p := range r.Revisions {
				offers = append(offers, strconv.FormatUint(uint64(p.Revision), 10))
			}
		}
	case "PROMPT":
		if r, err := client.Prompts.List(ctx, &controlpb.ListPromptsRequest{}); err == nil {
			for _, p := range r.Prompts {
				offer(p.Id, askedFor(p)+", for "+p.Agent)
			}
		}
	case "FACT":
		for r, err := range facts(ctx, client, owner) {
			if err == nil {
				offer(strconv.FormatInt(r.Fact.Id, 10), r.Fact.Content)
			}
		}
	case "TASK":
		for r, err := range control.Messages(client.Tasks.List(ctx, &controlpb.ListTasksRequest{})) {
			if err == nil {
				offer(r.Task.Id, r.Task.Text)
			}
		}
	case "ARTIFACT":
		for r, err := range control.Messages(client.Artifacts.List(ctx, &controlpb.ListArtifactsRequest{})) {
			if err == nil {
				offer(strconv.FormatInt(r.Artifact.Id, 10), r.Artifact.Name+" of "+r.Artifact.Agent)
			}
		}
	}
	return offers
}

// completeSession completes a flag that names a shell of the agent that is the
// first argument.
func completeSession(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return complete(cmd, "SESSION", args)
}
