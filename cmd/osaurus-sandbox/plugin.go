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

func newPlugin() *cobra.Command {
	return noun("plugin", newPluginInit(), newPluginLint(), newPluginSchema(),
		newPluginList(), newPluginShow(), newPluginImport(), newPluginExport(), newPluginDuplicate(), newPluginRemove(),
		newPluginEdit(), newPluginHistory(), newPluginDiff(), newPluginRollback(), newPluginRegister(),
		pluginInstallCommand(&controlpb.InstallPluginRequest{}, "install PLUGIN AGENT"), pluginInstallCommand(&controlpb.InstallPluginRequest{Update: true}, "update PLUGIN AGENT"),
		newPluginUninstall(), pluginEnableCommand("enable PLUGIN AGENT", false), pluginEnableCommand("disable PLUGIN AGENT", true), newPluginVerify(), newPluginStatus())
}

// oneLine shortens a text to one line.
func oneLine(text string) string {
	return printable.Line(printable.Text(text), 60)
}

func newPluginList() *cobra.Command {
	return daemonCommand("list", func(ctx context.Context, c *call) error {
		r, err := c.Plugins.List(ctx, &controlpb.ListPluginsRequest{})
		return reply(c, r, err, func(w io.Writer, r *controlpb.ListPluginsResponse) error {
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
	})
}

// revisionText describes a plugin's revision.
func revisionText(p *controlpb.Plugin) string {
	if p.Revision == 0 {
		return "by hand"
	}
	return fmt.Sprint(p.Revision)
}

func newPluginShow() *cobra.Command {
	return daemonCommand("show PLUGIN", func(ctx context.Context, c *call) error {
		r, err := c.Plugins.Show(ctx, &controlpb.ShowPluginRequest{Plugin: c.args[0]})
		if err == nil && r.Plugin == nil {
			err = fault.Newf(fault.InvalidArgs, "show plugin", c.args[0], "its file is broken: %s", r.Error).Advise("Fix it: osaurus-sandbox plugin edit " + c.args[0])
		}
		return reply(c, r.GetPlugin(), err, printPlugin)
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

func newPluginImport() *cobra.Command {
	request := &controlpb.ImportPluginRequest{}
	return daemonCommand("import SOURCE", func(ctx context.Context, c *call) error {
		if isFile(c.args[0]) {
			text, err := readRecipe(c.in, c.args[0])
			if err != nil {
				return err
			}
			request.From = &controlpb.ImportPluginRequest_Recipe{Recipe: text}
		} else {
			request.From = &controlpb.ImportPluginRequest_Source{Source: c.args[0]}
		}
		r, err := c.Plugins.Import(ctx, request)
		return reply(c, r, err, func(io.Writer, *controlpb.ImportPluginResponse) error {
			return printImported(c.console, r, request.DryRun)
		})
	},
		withFlag(&request.Update, "update", "replace an existing plugin of this name; plugin rollback undoes that"),
		withFlag(&request.DryRun, "dry-run", "show the recipe, and keep nothing"))
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

func newPluginExport() *cobra.Command {
	var revision uint32
	return daemonCommand("export PLUGIN", func(ctx context.Context, c *call) error {
		r, err := c.Plugins.Show(ctx, &controlpb.ShowPluginRequest{Plugin: c.args[0], Revision: revision})
		if err != nil {
			return err
		}
		if terminalWidth(c.out) > 0 {
			return writef(c.out, "%s", lines(harmlessJSON(r.Recipe)))
		}
		_, err = c.out.Write(r.Recipe)
		return err
	},
		withFlag(&revision, "revision", "which revision (default: the current one)"),
		alwaysJSON)
}

// replyRevised prints what was done with a plugin.
func replyRevised(c *call, done string, p *controlpb.Plugin, err error) error {
	return reply(c, p, err, func(w io.Writer, p *controlpb.Plugin) error {
		return writef(w, "%s %s, revision %d\n", done, p.Id, p.Revision)
	})
}

func newPluginDuplicate() *cobra.Command {
	return daemonCommand("duplicate PLUGIN NAME", func(ctx context.Context, c *call) error {
		r, err := c.Plugins.Duplicate(ctx, &controlpb.DuplicatePluginRequest{Plugin: c.args[0], Name: c.args[1]})
		return replyRevised(c, "made", r.GetPlugin(), err)
	})
}

func newPluginRemove() *cobra.Command {
	return daemonCommand("remove PLUGIN", func(ctx context.Context, c *call) error {
		_, err := c.Plugins.Remove(ctx, &controlpb.RemovePluginRequest{Plugin: c.args[0]})
		return reply(c, map[string]string{"plugin": c.args[0]}, err, nil)
	},
		asks("remove PLUGIN", "The recipe and all its revisions will be gone."))
}

// recipeAt returns a revision of a plugin's recipe; 0 means the current one.
func recipeAt(ctx context.Context, client *control.Client, plugin string, revision uint32) (plugins.Recipe, error) {
	r, err := client.Plugins.Show(ctx, &controlpb.ShowPluginRequest{Plugin: plugin, Revision: revision})
	if err != nil {
		return plugins.Recipe{}, err
	}
	return plugins.Parse(r.Recipe)
}

func newPluginHistory() *cobra.Command {
	return daemonCommand("history PLUGIN", func(ctx context.Context, c *call) error {
		r, err := c.Plugins.History(ctx, &controlpb.PluginHistoryRequest{Plugin: c.args[0]})
		return replyTable(c, r, err, "REVISION\tMODIFIED\tVERSION\tHASH\t", r.GetRevisions(), func(p *controlpb.PluginHistoryResponse_Revision) []any {
			note := p.Error
			if p.Current {
				note = "current"
			}
			return []any{p.Revision, when(p.Modified), p.Version, shortID(p.Hash), note}
		})
	})
}

// revisionOf parses a revision number. It returns 0 for no text.
func revisionOf(text string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return 0, fault.Newf(fault.InvalidArgs, "read revision", text, "not a number from 1").Advise("See: osaurus-sandbox plugin history")
	}
	return uint32(n), nil
}

func newPluginDiff() *cobra.Command {
	return daemonCommand("diff PLUGIN [FROM [TO]]", func(ctx context.Context, c *call) error {
		from, err := revisionOf(c.arg(1))
		if err == nil && from == 0 {
			from, err = beforeCurrent(ctx, c.Client, c.args[0])
		}
		if err != nil {
			return err
		}
		to, err := revisionOf(c.arg(2))
		if err != nil {
			return err
		}
		before, err := recipeAt(ctx, c.Client, c.args[0], from)
		if err != nil {
			return err
		}
		after, err := recipeAt(ctx, c.Client, c.args[0], to)
		if err != nil {
			return err
		}
		diff, err := plugins.Diff(before, after)
		return reply(c, map[string]any{"from": from, "to": to, "diff": diff}, err, func(w io.Writer, _ map[string]any) error {
			return writef(w, "%s", lines(diff))
		})
	})
}

// beforeCurrent returns the newest revision before the current one.
func beforeCurrent(ctx context.Context, client *control.Client, plugin string) (uint32, error) {
	r, err := client.Plugins.History(ctx, &controlpb.PluginHistoryRequest{Plugin: plugin})
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

func newPluginRollback() *cobra.Command {
	return daemonCommand("rollback PLUGIN [REVISION]", func(ctx context.Context, c *call) error {
		revision, err := revisionOf(c.arg(1))
		if err != nil {
			return err
		}
		r, err := c.Plugins.Rollback(ctx, &controlpb.RollbackPluginRequest{Plugin: c.args[0], Revision: revision})
		return replyRevised(c, "rolled back", r.GetPlugin(), err)
	})
}
