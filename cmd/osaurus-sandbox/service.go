package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/supervisor/autostart"
)

func newService() *cobra.Command {
	return noun("service",
		serviceCommand("install", func(ctx context.Context, c *call, home config.Home, s autostart.Service) (err error) {
			if err := s.Ready(ctx); err != nil {
				return err // the daemon keeps running
			}
			if c.Client, err = control.Connect(ctx, home, clientName); err == nil {
				if err := quit(ctx, c.Client, home); err != nil {
					return err
				}
			}
			return s.Install(ctx)
		}, func(w io.Writer, s autostart.Status) error { return writef(w, "installed %s\n", s.File) }),
		serviceCommand("uninstall", func(ctx context.Context, _ *call, _ config.Home, s autostart.Service) error { return s.Uninstall(ctx) },
			func(w io.Writer, s autostart.Status) error { return writef(w, "removed %s\n", s.File) }),
		serviceCommand("status", func(context.Context, *call, config.Home, autostart.Service) error { return nil },
			func(w io.Writer, s autostart.Status) error {
				return writef(w, "file       %s\ninstalled  %v\ncurrent    %v\nrunning    %v\n", s.File, s.Installed, s.Current, s.Running)
			}))
}

// serviceCommand returns a command that changes or shows the service, and prints its state.
func serviceCommand(use string, do func(context.Context, *call, config.Home, autostart.Service) error, show func(io.Writer, autostart.Status) error) *cobra.Command {
	return command(use, func(ctx context.Context, c *call) error {
		home, err := config.FindHome()
		if err != nil {
			return err
		}
		s, err := autostart.New(home)
		if err != nil {
			return err
		}
		if err := do(ctx, c, home, s); err != nil {
			return err
		}
		status, err := s.Status(ctx)
		return reply(c, status, err, show)
	})
}
