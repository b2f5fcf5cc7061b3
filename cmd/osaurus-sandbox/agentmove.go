package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

func newAgentExport() *cobra.Command {
	return daemonCommand("export AGENT FILE", `Write an agent to a file, to move it to another computer

Writes the agent's settings, its home folder, and what it installed or changed outside of that as an archive for "agent import".
Secrets are not in it, and neither are memory, tasks, plugins, caches and snapshots. Starts the sandbox if necessary. Programs may
write meanwhile: each file is as it was when it was read. The disk needs space for another copy of the home folder. - is standard
output. Ctrl-C leaves no file.`,
		`  osaurus-sandbox agent export alice alice.agent
  osaurus-sandbox agent export alice - | ssh other osaurus-sandbox agent import -`, func(ctx context.Context, c *call) error {
			if c.args[1] == stream && c.json {
				return fault.Newf(fault.InvalidArgs, "export agent", "", "- and --json both need standard output").Advise("Name a file.")
			}
			archive, err := c.ExportAgent(ctx, c.args[0])
			if err != nil {
				return err
			}
			defer archive.Close()
			if c.args[1] == stream {
				_, err := io.Copy(c.out, archive)
				return err
			}
			err = withMeter(c, "export "+c.args[0], archive, func(from io.Reader) error { return writeWhole(c.args[1], from) })
			return reply(c, map[string]string{"agent": c.args[0], "file": c.args[1]}, err, nil)
		})
}

// writeWhole writes a new file, all of it or nothing.
func writeWhole(name string, from io.Reader) error {
	part := name + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(part, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return nil
}

// withMeter shows how many bytes do reads.
func withMeter(c *call, step string, from io.Reader, do func(io.Reader) error) error {
	meter := showProgress(c.err).Start(step, 0, 0)
	if err := do(io.TeeReader(from, meter)); err != nil {
		return err
	}
	meter.Finish()
	return nil
}

func newAgentImport() *cobra.Command {
	how := &controlpb.ImportAgentRequest{}
	return daemonCommand("import FILE", `Make a new agent of an exported one

The agent appears with all that it had or not at all. It has an id and tokens of its own, and no secrets or plugins. What it may
reach is what a new agent may reach: use --network to take that from the archive, if you trust it. - is standard input.

What it installed needs the pack and toolbox of the other sandbox, so an archive of another one is refused. With --other-pack,
settings and home folder are imported.`,
		`  osaurus-sandbox agent import alice.agent
  osaurus-sandbox agent import alice.agent --as bob --network`, func(ctx context.Context, c *call) error {
			from := c.in
			if c.args[0] != stream {
				f, err := os.Open(c.args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				from = f
			}
			name := ""
			err := withMeter(c, "import", from, func(from io.Reader) (err error) {
				name, err = c.ImportAgent(ctx, how, from)
				return err
			})
			if err != nil {
				return err
			}
			r, err := c.Agents.Show(ctx, &controlpb.ShowAgentRequest{Agent: name})
			return reply(c, r.GetAgent(), err, printAgent)
		},
		withFlag(&how.Name, "as", "the agent's name (default that of the archive)"),
		withFlag(&how.OtherPack, "other-pack", "import it even if it was exported with another pack or toolbox"),
		withFlag(&how.Network, "network", "take what the agent may reach from the archive"))
}
