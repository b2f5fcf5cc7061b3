package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

func newAgentExport() *cobra.Command {
	return daemonCommand("export AGENT FILE", func(ctx context.Context, c *call) error {
		if c.args[1] == stream && c.json {
			return fault.Newf(fault.InvalidArgs, "export agent", "", "- and --json both need standard output").Advise("Name a file.")
		}
		archive, err := control.ReadChunks(c.Backups.Export(ctx, &controlpb.ExportAgentRequest{Agent: c.args[0]}))
		if err != nil {
			return err
		}
		defer archive.Close()
		if c.args[1] == stream {
			_, err := io.Copy(c.out, archive)
			return err
		}
		err = withMeter(c, "export "+c.args[0], archive, func(from io.Reader) error {
			return config.WriteWith(c.args[1], 0o600, func(to io.Writer) error {
				_, err := io.Copy(to, from)
				return err
			})
		})
		return reply(c, map[string]string{"agent": c.args[0], "file": c.args[1]}, err, nil)
	})
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
	return daemonCommand("import FILE", func(ctx context.Context, c *call) error {
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
		withFlag(&how.Settings, "settings", "take the agent's settings from the archive"))
}
