package main

import (
	"io"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/supervisor/autostart"
)

func newService(c console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "service",
		Short: "Start the daemon whenever you log in",
		Long: `The daemon becomes a service of your user: a systemd user unit on Linux, a launchd agent on macOS. The setting autoStart says
whether it starts the guest too.`,
		Example: `  osaurus-sandbox service install
  osaurus-sandbox service status
  osaurus-sandbox service uninstall`,
	}
	cmd.AddCommand(newServiceInstall(c), newServiceUninstall(c), newServiceStatus(c))
	return cmd
}

func thisService() (autostart.Service, error) {
	home, err := config.FindHome()
	if err != nil {
		return autostart.Service{}, err
	}
	return autostart.New(home)
}

// replyService prints the state of a service.
func replyService(cmd *cobra.Command, s autostart.Service, show func(io.Writer, autostart.Status) error) error {
	status, err := s.Status(cmd.Context())
	return reply(cmd, status, err, show)
}

func newServiceInstall(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "install",
		Short:   "Install the service and start it",
		Long:    "Installs the service and starts it. If a daemon runs, it ends first, and its guest with it.",
		Example: `  osaurus-sandbox service install`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := config.FindHome()
			if err != nil {
				return err
			}
			s, err := autostart.New(home)
			if err != nil {
				return err
			}
			if err := s.Ready(cmd.Context()); err != nil {
				return err // the daemon keeps running
			}
			if client, err := control.Connect(cmd.Context(), home, clientName); err == nil {
				err = quit(cmd.Context(), client, home)
				client.Close()
				if err != nil {
					return err
				}
			}
			if err := s.Install(cmd.Context()); err != nil {
				return err
			}
			return replyService(cmd, s, func(w io.Writer, s autostart.Status) error { return writef(w, "installed %s\n", s.File) })
		},
	})
}

func newServiceUninstall(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "uninstall",
		Short:   "Stop the service and remove it",
		Example: `  osaurus-sandbox service uninstall`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := thisService()
			if err != nil {
				return err
			}
			if err := s.Uninstall(cmd.Context()); err != nil {
				return err
			}
			return replyService(cmd, s, func(w io.Writer, s autostart.Status) error { return writef(w, "removed %s\n", s.File) })
		},
	})
}

func newServiceStatus(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "status",
		Short:   "Show whether the service is installed and running",
		Example: `  osaurus-sandbox service status`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := thisService()
			if err != nil {
				return err
			}
			return replyService(cmd, s, func(w io.Writer, s autostart.Status) error {
				return writef(w, "file       %s\ninstalled  %v\ncurrent    %v\nrunning    %v\n", s.File, s.Installed, s.Current, s.Running)
			})
		},
	})
}
