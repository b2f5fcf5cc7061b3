package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/plugins"
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

// oneLine shortens a text to one line.
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

// revisionText describes a plugin's revision.
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
				err = fault.Newf(fault.InvalidArgs, "show plugin", args[0], "its file is broken: %s", r.Error).Advise("Fix it: osaurus-sandbox plugin edit " + args[0])
			}
			return reply(cmd, r.GetPlugin(), err, printPlugin)
		}),
	})
}

// printPlugin prints what a person should know before installing a plugin.
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

// asksFor lists the permissions that a plugin requests beyond those of other programs.
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

func newPluginImport(c console) *cobra.Command {
	request := &controlpb.ImportPluginRequest{}
	cmd := &cobra.Command{
		Use:   "import SOURCE",
		Short: "Add a recipe to the library",
		Long: `SOURCE is a file, - for standard input, a web address (https only), or a repository on GitHub: OWNER/NAME, or OWNER/NAME@REF with a
branch, tag or commit. Of a repository it reads osaurus.json or plugin.json, and the recipe remembers from which commit. The daemon
does the download, and only from public addresses.`,
		Example: `  osaurus-sandbox plugin import word-count.json
  osaurus-sandbox plugin import owner/name@v1.2 --dry-run
  osaurus-sandbox plugin import https://example.com/recipe.json --update`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			if isFile(args[0]) {
				text, err := readRecipe(c, args[0])
				if err != nil {
					return err
				}
				request.From = &controlpb.ImportPluginRequest_Recipe{Recipe: text}
			} else {
				request.From = &controlpb.ImportPluginRequest_Source{Source: args[0]}
			}
			r, err := client.Plugins.Import(cmd.Context(), request)
			return reply(cmd, r, err, func(io.Writer, *controlpb.ImportPluginResponse) error { return printImported(c, r, request.DryRun) })
		}),
	}
	cmd.Flags().BoolVar(&request.Update, "update", false, "replace the plugin of this name, if there is one; plugin rollback undoes that")
	cmd.Flags().BoolVar(&request.DryRun, "dry-run", false, "show it, and keep nothing")
	return withJSON(cmd)
}

// isFile reports whether a source is a file. A mistyped file name counts too, rather than as a
// repository.
func isFile(source string) bool {
	_, err := os.Stat(source)
	return err == nil || source == "-" || strings.HasPrefix(source, ".") || strings.HasPrefix(source, "/") ||
		strings.HasSuffix(source, ".json") && !strings.Contains(source, "://")
}

// printImported prints what was imported, from where, and any warnings.
func printImported(c console, r *controlpb.ImportPluginResponse, dryRun bool) error {
	for _, f := range r.Warnings {
		writef(c.err, "%s: %s: %s\n    %s\n", f.Severity, f.Path, f.Text, f.Fix)
	}
	if r.From != "" {
		writef(c.out, "read %s\nsha256 %s\n", r.From, r.Sha256)
	}
	p := r.Plugin
	done := fmt.Sprintf("imported %s, revision %d", p.Id, p.Revision)
	if dryRun {
		done = "would import " + p.Id
	}
	return writef(c.out, "%s; it asks for %s\n", done, strings.Join(asksFor(p), "; "))
}

func newPluginExport(c console) *cobra.Command {
	var output string
	var force bool
	var revision uint32
	cmd := &cobra.Command{
		Use:   "export PLUGIN",
		Short: "Print a plugin's recipe, or write it to a file",
		Example: `  osaurus-sandbox plugin export word-count > word-count.json
  osaurus-sandbox plugin export word-count --revision 3 --output old.json`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Plugins.Show(cmd.Context(), &controlpb.ShowPluginRequest{Plugin: args[0], Revision: revision})
			if err != nil {
				return err
			}
			if output != "" {
				return writeNew(output, r.Recipe, force)
			}
			_, err = c.out.Write(r.Recipe)
			return err
		}),
	}
	cmd.Flags().StringVar(&output, "output", "", "write it to this `FILE`")
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing file")
	cmd.Flags().Uint32Var(&revision, "revision", 0, "which revision (default: the current one)")
	return alwaysJSON(cmd)
}

// replyRevised prints what was done with a plugin.
func replyRevised(cmd *cobra.Command, done string, p *controlpb.Plugin, err error) error {
	return reply(cmd, p, err, func(w io.Writer, p *controlpb.Plugin) error {
		return writef(w, "%s %s, revision %d\n", done, p.Id, p.Revision)
	})
}

func newPluginDuplicate(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "duplicate PLUGIN NAME",
		Short:   "Copy a plugin's recipe under another name",
		Example: `  osaurus-sandbox plugin duplicate word-count "Line Count"`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Plugins.Duplicate(cmd.Context(), &controlpb.DuplicatePluginRequest{Plugin: args[0], Name: args[1]})
			return replyRevised(cmd, "made", r.GetPlugin(), err)
		}),
	})
}

func newPluginRename(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "rename PLUGIN NAME",
		Short:   "Give a plugin another name, and with it another id",
		Long:    `It keeps its revisions. What is installed for agents keeps the old id until it is uninstalled.`,
		Example: `  osaurus-sandbox plugin rename word-count "Line Count"`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Plugins.Rename(cmd.Context(), &controlpb.RenamePluginRequest{Plugin: args[0], Name: args[1]})
			return replyRevised(cmd, "it is now", r.GetPlugin(), err)
		}),
	})
}

func newPluginRemove(c console) *cobra.Command {
	return confirmed(c, &cobra.Command{
		Use:     "remove PLUGIN",
		Short:   "Delete a plugin from the library, with all its revisions",
		Long:    `What is installed for agents stays: "plugin uninstall" removes that.`,
		Example: `  osaurus-sandbox plugin remove word-count`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			_, err := client.Plugins.Remove(cmd.Context(), &controlpb.RemovePluginRequest{Plugin: args[0]})
			return reply(cmd, map[string]string{"plugin": args[0]}, err, nil)
		}),
	}, func(args []string) (string, string) {
		return "remove " + args[0], "The recipe and all its revisions will be gone."
	})
}

// recipeAt returns a revision of a plugin's recipe; 0 means the current one.
func recipeAt(ctx context.Context, client *control.Client, plugin string, revision uint32) (plugins.Recipe, error) {
	r, err := client.Plugins.Show(ctx, &controlpb.ShowPluginRequest{Plugin: plugin, Revision: revision})
	if err != nil {
		return plugins.Recipe{}, err
	}
	return plugins.Parse(r.Recipe)
}

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

// revisionOf parses a revision number.
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

// beforeCurrent returns the newest revision before the current one.
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
