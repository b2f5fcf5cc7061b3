package main

import (
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
)

func newPluginHistory(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "history PLUGIN",
		Short:   "List the revisions of a plugin, newest first",
		Example: `  osaurus-sandbox plugin history word-count`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Plugins.History(cmd.Context(), &controlpb.PluginHistoryRequest{Plugin: args[0]})
			return replyTable(cmd, r, err, "REVISION\tMODIFIED\tVERSION\tHASH\t", r.GetRevisions(), func(p *controlpb.PluginHistoryResponse_Revision) []any {
				note := p.Error
				if p.Current {
					note = "current"
				}
				return []any{p.Revision, when(p.Modified), p.Version, shortID(p.Hash), note}
			})
		}),
	})
}

// revisionOf reads the number of a revision.
func revisionOf(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return 0, fault.Newf(fault.InvalidArgs, "read revision", text, "not a number from 1").Advise("See: osaurus-sandbox plugin history")
	}
	return uint32(n), nil
}

func newPluginDiff(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "diff PLUGIN [FROM [TO]]",
		Short: "Show what changed between two revisions of a plugin",
		Long:  `Without FROM it begins with the revision before the current one. Without TO it ends with the plugin as it is now.`,
		Example: `  osaurus-sandbox plugin diff word-count
  osaurus-sandbox plugin diff word-count 2 5`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			var ends [2]uint32
			for i, text := range args[1:] {
				var err error
				if ends[i], err = revisionOf(text); err != nil {
					return err
				}
			}
			if ends[0] == 0 {
				var err error
				if ends[0], err = beforeCurrent(cmd, client, args[0]); err != nil {
					return err
				}
			}
			var recipes [2]plugins.Recipe
			for i, n := range ends {
				var err error
				if recipes[i], err = recipeAt(cmd.Context(), client, args[0], n); err != nil {
					return err
				}
			}
			diff, err := plugins.Diff(recipes[0], recipes[1])
			return reply(cmd, map[string]any{"from": ends[0], "to": ends[1], "diff": diff}, err, func(w io.Writer, _ map[string]any) error {
				return writef(w, "%s", lines(diff))
			})
		}),
	})
}

// beforeCurrent is the newest revision that is not the current.
func beforeCurrent(cmd *cobra.Command, client *control.Client, plugin string) (uint32, error) {
	r, err := client.Plugins.History(cmd.Context(), &controlpb.PluginHistoryRequest{Plugin: plugin})
	if err != nil {
		return 0, err
	}
	for _, p := range r.Revisions {
		if !p.Current && p.Error == "" {
			return p.Revision, nil
		}
	}
	return 0, fault.Newf(fault.NotFound, "compare plugin", plugin, "it has no earlier revision").Advise("See: osaurus-sandbox plugin history " + plugin)
}

func newPluginRollback(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "rollback PLUGIN [REVISION]",
		Short: "Go back to an earlier revision of a plugin",
		Long:  `Without REVISION it goes back to the one before the current one. What it goes back to becomes a new revision: none is lost.`,
		Example: `  osaurus-sandbox plugin rollback word-count
  osaurus-sandbox plugin rollback word-count 3`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) (err error) {
			request := &controlpb.RollbackPluginRequest{Plugin: args[0]}
			if len(args) > 1 {
				if request.Revision, err = revisionOf(args[1]); err != nil {
					return err
				}
			}
			r, err := client.Plugins.Rollback(cmd.Context(), request)
			return replyRevised(cmd, "rolled back", r.GetPlugin(), err)
		}),
	})
}
