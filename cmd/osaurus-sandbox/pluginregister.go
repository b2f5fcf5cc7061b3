package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/internal/progress"
)

func newPluginRegister(c console) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "register AGENT [ID]",
		Short: "Turn what an agent has written into a plugin",
		Long: `Makes a plugin of an agent's folder ~/plugins/ID, with its plugin.json and all texts beside it, as the agent itself does with the tool
sandbox_plugin_register. The recipe is checked, kept in the library and installed for the agent. The plugin gets no network and may
not use inference; the hosts that it lists are kept for the time when they can be enforced. With --file it is made of a whole recipe
instead. Either all of this is done or nothing.`,
		Example: `  osaurus-sandbox plugin register alice rss-watch
  osaurus-sandbox plugin register alice --file rss-watch.json`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r := &controlpb.RegisterPluginRequest{Agent: args[0]}
			switch {
			case (file != "") == (len(args) > 1):
				return fault.Newf(fault.InvalidArgs, "register plugin", args[0], "it takes either an ID or --file").Advise("Name the folder in the agent's ~/plugins.")
			case file != "":
				text, err := readRecipe(c, file)
				if err != nil {
					return err
				}
				r.From = &controlpb.RegisterPluginRequest_Recipe{Recipe: text}
			default:
				r.From = &controlpb.RegisterPluginRequest_Plugin{Plugin: args[1]}
			}
			p, err := registerPlugin(cmd.Context(), client, r, showProgress(c.err))
			return reply(cmd, p, err, func(io.Writer, *controlpb.RegisteredPlugin) error { return printRegistered(c, args[0], p) })
		}),
	}
	cmd.Flags().StringVar(&file, "file", "", "a recipe; - is standard input")
	return withJSON(cmd)
}

// registerPlugin has a plugin be registered, and shows how far that is.
func registerPlugin(ctx context.Context, client *control.Client, r *controlpb.RegisterPluginRequest, show progress.Func) (*controlpb.RegisteredPlugin, error) {
	const step = "register"
	var p *controlpb.RegisteredPlugin
	for m, err := range control.Messages(client.Registrations.Register(ctx, r)) {
		if err != nil {
			return nil, err
		}
		if text := m.GetProgress(); text != "" {
			show(progress.Event{Step: step, Note: "  " + printable.Clip(text)})
		}
		p = m.GetPlugin()
	}
	if p == nil {
		return nil, fault.Newf(fault.Execution, "register plugin", r.Agent, "the daemon did not say what came of it")
	}
	return p, nil
}

func printRegistered(c console, agent string, p *controlpb.RegisteredPlugin) error {
	writef(c.out, "%s has the plugin %s.\n", agent, p.Id)
	for _, t := range p.Tools {
		writef(c.out, "  %s  %s\n", t.Name, printable.Clip(t.Description))
	}
	for _, w := range p.Warnings {
		writef(c.err, "%s\n", printable.Clip(w))
	}
	return writef(c.err, "Remove it: osaurus-sandbox plugin uninstall %s %s\n", p.Id, agent)
}
