package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/plugins"
)

func newPluginHistory(c console) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "history PLUGIN",
		Short:   "List the revisions of a plugin, newest first",
		Example: `  osaurus-sandbox plugin history word-count`,
		Args:    cobra.ExactArgs(1),
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Plugins.History(cmd.Context(), &controlpb.PluginHistoryRequest{Plugin: args[0]})
			switch {
			case err != nil:
				return err
			case asJSON:
				return printProto(c.out, r)
			}
			table := newTable(c.out)
			fmt.Fprintln(table, "REVISION\tMODIFIED\tVERSION\tHASH\t")
			for _, p := range r.Revisions {
				at, note := "", p.Error
				if p.Modified != nil {
					at = when(p.Modified)
				}
				if p.Current {
					note = "current"
				}
				const shown = 12 // tells revisions apart
				writef(table, "%d\t%s\t%s\t%s\t%s\n", p.Revision, at, p.Version, p.Hash[:min(len(p.Hash), shown)], note)
			}
			return table.Flush()
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
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
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff PLUGIN [FROM [TO]]",
		Short: "Show what changed between two revisions of a plugin",
		Long:  `Without FROM it is the revision before the current; without TO, what the plugin is now.`,
		Example: `  osaurus-sandbox plugin diff word-count
  osaurus-sandbox plugin diff word-count 2 5`,
		Args: cobra.RangeArgs(1, 3),
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
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.out, map[string]any{"from": ends[0], "to": ends[1], "diff": diff})
			}
			_, err = io.WriteString(c.out, string(lines(diff)))
			return err
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
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
	return 0, fault.Newf(fault.NotFound, "compare plugin", plugin, "there is nothing before it").Advise("See: osaurus-sandbox plugin history " + plugin)
}

func newPluginRollback(c console) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rollback PLUGIN [REVISION]",
		Short: "Go back to an earlier revision of a plugin",
		Long:  `Without REVISION it is the one before the current. It becomes the newest revision; no other is lost.`,
		Example: `  osaurus-sandbox plugin rollback word-count
  osaurus-sandbox plugin rollback word-count 3`,
		Args: cobra.RangeArgs(1, 2),
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) (err error) {
			request := &controlpb.RollbackPluginRequest{Plugin: args[0]}
			if len(args) > 1 {
				if request.Revision, err = revisionOf(args[1]); err != nil {
					return err
				}
			}
			r, err := client.Plugins.Rollback(cmd.Context(), request)
			if err != nil {
				return err
			}
			return printRevised(c.out, "rolled back", r.Plugin, asJSON)
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
