package main

import (
	"context"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
)

func newPlugin(c console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "Give agents plugins",
		Long: `A plugin is a recipe in JSON: packages, files, a setup, and tools that models call. The library keeps recipes; each agent has those that are
installed for it. Their tools are ID_TOOL, and are there at once: osaurus-sandbox tool list.`,
		Example: `  osaurus-sandbox plugin install python-data-tools alice
  osaurus-sandbox plugin status`,
		Args: cobra.NoArgs,
		RunE: showHelp,
	}
	cmd.AddCommand(newPluginInstalls(c)...)
	cmd.AddCommand(newPluginRegister(c))
	return cmd
}

// completePlugin completes a plugin of the library.
func completePlugin(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completion(cmd, func(ctx context.Context, client *control.Client) (ids []string) {
		r, err := client.Plugins.List(ctx, connect.NewRequest(&controlpb.ListPluginsRequest{}))
		if err != nil {
			return nil
		}
		for _, p := range r.Msg.Plugins {
			ids = append(ids, p.Id+"\t"+p.Description)
		}
		return ids
	})
}
