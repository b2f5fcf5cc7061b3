package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/plugins"
)

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

// isFile reports whether a source is a file, also one that is not there: a mistyped name is nobody's repository.
func isFile(source string) bool {
	_, err := os.Stat(source)
	return err == nil || source == "-" || strings.HasPrefix(source, ".") || strings.HasPrefix(source, "/") ||
		strings.HasSuffix(source, ".json") && !strings.Contains(source, "://")
}

// printImported says what was kept, where it came from, and what is to be known of it.
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
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	cmd.Flags().Uint32Var(&revision, "revision", 0, "as it was then (default: as it is)")
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

// recipeAt returns a revision of a plugin's recipe; 0 is the current one.
func recipeAt(ctx context.Context, client *control.Client, plugin string, revision uint32) (plugins.Recipe, error) {
	r, err := client.Plugins.Show(ctx, &controlpb.ShowPluginRequest{Plugin: plugin, Revision: revision})
	if err != nil {
		return plugins.Recipe{}, err
	}
	return plugins.Parse(r.Recipe)
}
