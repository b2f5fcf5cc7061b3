package main

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
)

// completeLimit is how long a person who has pressed Tab waits.
const completeLimit = 2 * time.Second

// completion has the shell complete words by what a daemon that runs knows.
// It starts none.
func completion(cmd *cobra.Command, list func(context.Context, *control.Client) []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeLimit)
	defer cancel()
	client, err := reach(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer client.Close()
	return list(ctx, client), cobra.ShellCompDirectiveNoFileComp
}

// completeAgent completes a first argument.
func completeAgent(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault // a command, perhaps
	}
	return completion(cmd, func(ctx context.Context, client *control.Client) (names []string) {
		r, err := client.Agents.List(ctx, connect.NewRequest(&controlpb.ListAgentsRequest{}))
		if err != nil {
			return nil
		}
		for _, a := range r.Msg.Agents {
			names = append(names, a.Name)
		}
		return names
	})
}

// completeSession completes a session of the agent that is the first argument.
func completeSession(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return completion(cmd, func(ctx context.Context, client *control.Client) (ids []string) {
		r, err := client.Shells.List(ctx, connect.NewRequest(&controlpb.ListSessionsRequest{Agent: first(args)}))
		if err != nil {
			return nil
		}
		for _, s := range r.Msg.Sessions {
			ids = append(ids, s.Session)
		}
		return ids
	})
}

func completeAgentAndSession(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return completeSession(cmd, args, begun)
	}
	return completeAgent(cmd, args, begun)
}

// completeAgentAndJob completes an agent and one of its jobs, which is shown
// with its command.
func completeAgentAndJob(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return completeAgent(cmd, args, begun)
	}
	return completion(cmd, func(ctx context.Context, client *control.Client) (ids []string) {
		r, err := client.Jobs.List(ctx, connect.NewRequest(&controlpb.ListJobsRequest{Agent: args[0]}))
		if err != nil {
			return nil
		}
		for _, j := range r.Msg.Jobs {
			ids = append(ids, j.Id+"\t"+j.Command)
		}
		return ids
	})
}
