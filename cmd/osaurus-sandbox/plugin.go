package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

func newPlugin(c console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "Write, keep and share plugins: tools of your own for agents",
		Long: `A plugin is a recipe in JSON: packages, files, a setup command, and tools that an agent can call. The library keeps recipes, with all
their earlier revisions. What is installed for an agent is a copy, which changes only when you update it. "plugin init" writes an
example, and "plugin schema" prints the format.`,
		Example: `  osaurus-sandbox plugin init "Word Count"               begin a recipe: word-count.json
  osaurus-sandbox plugin lint word-count.json            see what is wrong with it
  osaurus-sandbox plugin import word-count.json          put it into the library
  osaurus-sandbox plugin import owner/name@v1.2          or somebody else's, from GitHub
  osaurus-sandbox plugin install word-count alice        give its tools to an agent
  osaurus-sandbox plugin status                          see who has what
  osaurus-sandbox plugin edit word-count                 change it
  osaurus-sandbox plugin diff word-count                 see what changed`,
	}
	cmd.AddCommand(
		newPluginInit(c), newPluginLint(c), newPluginSchema(c),
		newPluginList(c), newPluginShow(c), newPluginImport(c), newPluginExport(c), newPluginDuplicate(c), newPluginRename(c), newPluginRemove(c),
		newPluginEdit(c), newPluginHistory(c), newPluginDiff(c), newPluginRollback(c), newPluginRegister(c),
	)
	cmd.AddCommand(newPluginInstalls(c)...)
	return cmd
}

// oneLine is a text where there is no room for more.
func oneLine(text string) string {
	return printable.Line(printable.Text(text), 60)
}

func newPluginList(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "list",
		Short:   "List the plugins of the library",
		Example: `  osaurus-sandbox plugin list`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, _ []string) error {
			r, err := client.Plugins.List(cmd.Context(), &controlpb.ListPluginsRequest{})
			return reply(cmd, r, err, func(w io.Writer, r *controlpb.ListPluginsResponse) error {
				for _, b := range r.Broken {
					writef(c.err, "broken: %s: %s\n", b.Path, b.Error)
					if b.Advice != "" {
						writef(c.err, advicePrefix+"%s\n", b.Advice)
					}
				}
				return printTable(w, "ID\tVERSION\tREVISION\tMODIFIED\tTOOLS\tDESCRIPTION", r.Plugins, func(p *controlpb.Plugin) []any {
					return []any{p.Id, p.Version, revisionText(p), when(p.Modified), len(p.Tools), oneLine(p.Description)}
				})
			})
		}),
	})
}

// revisionText is a plugin's revision, as a person reads it.
func revisionText(p *controlpb.Plugin) string {
	if p.Revision == 0 {
		return "by hand"
	}
	return fmt.Sprint(p.Revision)
}

func newPluginShow(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "show PLUGIN",
		Short:   "Show what a plugin has and asks for",
		Example: `  osaurus-sandbox plugin show word-count`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Plugins.Show(cmd.Context(), &controlpb.ShowPluginRequest{Plugin: args[0]})
			if err == nil && r.Plugin == nil {
				err = fault.Newf(fault.InvalidArgs, "show plugin", args[0], "its file is broken: %s", r.Error).Advise("Mend it: osaurus-sandbox plugin edit " + args[0])
			}
			return reply(cmd, r.GetPlugin(), err, printPlugin)
		}),
	})
}

// printPlugin prints what a person wants to know before they install a plugin.
func printPlugin(w io.Writer, p *controlpb.Plugin) error {
	table := newTable(w)
	table.field("id", p.Id)
	table.field("name", p.Name)
	table.field("description", strings.Join(strings.Fields(p.Description), " "))
	table.field("version", p.Version)
	table.field("author", p.Author)
	table.field("source", p.Source)
	table.field("revision", revisionText(p))
	table.field("modified", when(p.Modified))
	table.field("imported from", p.ImportedFrom)
	table.field("created by", p.CreatedBy)
	table.field("tools", strings.Join(p.Tools, ", "))
	table.field("asks for", strings.Join(asksFor(p), "; "))
	table.field("hash", p.Hash)
	return table.Flush()
}

// asksFor is what a plugin wants that not every program of an agent has.
func asksFor(p *controlpb.Plugin) []string {
	var list []string
	if p.Network != "" && p.Network != "none" {
		list = append(list, "network: "+strings.ReplaceAll(p.Network, ",", ", "))
	}
	if len(p.Secrets) > 0 {
		list = append(list, "secrets: "+strings.Join(slices.Sorted(slices.Values(p.Secrets)), ", "))
	}
	if p.Inference {
		list = append(list, "inference")
	}
	if p.Daemon {
		list = append(list, "a daemon")
	}
	if len(list) == 0 {
		list = append(list, "nothing")
	}
	return list
}
