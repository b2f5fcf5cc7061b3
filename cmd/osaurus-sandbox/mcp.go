package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/mcp"
	"osaurus-sandbox/tools"
)

func newMCP() *cobra.Command {
	agent, profile := "", string(tools.Full)
	cmd := plainCommand("mcp", func(ctx context.Context, c *call) error {
		o := mcp.Options{
			Sandbox: mcp.API{Connect: func(ctx context.Context, name string) (*control.Client, error) { return need(ctx, name) }, Find: reach}, Program: programPath(), Version: build(),
			Log: slog.New(slog.NewTextHandler(c.err, &slog.HandlerOptions{Level: slog.LevelError})),
		}
		var err error
		if o.Profile, err = mcp.ParseProfile(profile); err != nil {
			return err
		}
		if agent != "" {
			if o.Agent, err = config.NameAgent(agent); err != nil {
				return err
			}
		}
		os.Stdout = os.Stderr // keeps stray prints out of the protocol
		return mcp.Serve(ctx, c.in, c.out, o)
	},
		withFlag(&agent, "agent", "the agent that the app works as (default one named after the app)"),
		withFlag(&profile, "profile", "which tools: full, or lean for small models"))
	cmd.AddCommand(newMCPInstall(), newMCPUninstall(), newMCPConfig())
	return cmd
}

// programPath returns this program's path for configuration files. It prefers the path by which it
// was called, since a link in PATH survives an upgrade and its target does not.
func programPath() string {
	path, err := os.Executable()
	if err != nil {
		return clientName
	}
	called, err := exec.LookPath(os.Args[0])
	if err != nil {
		return path
	}
	called, err = filepath.Abs(called)
	a, errA := os.Stat(path)
	b, errB := os.Stat(called)
	if errors.Join(err, errA, errB) == nil && os.SameFile(a, b) {
		return called
	}
	return path
}
