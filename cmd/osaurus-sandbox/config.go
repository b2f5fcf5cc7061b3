package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/fault"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show or change the settings",
		Args:  cobra.NoArgs,
		RunE:  showHelp,
	}
	cmd.AddCommand(newConfigShow(), newConfigSet())
	return cmd
}

func newConfigShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Print every setting as JSON, and where the file is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, settings, err := loadSettings()
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.ErrOrStderr(), home.SettingsFile())
			return printJSON(cmd.OutOrStdout(), settings)
		},
	}
}

func newConfigSet() *cobra.Command {
	return &cobra.Command{
		Use:   "set KEY=VALUE...",
		Short: "Change settings, all or none",
		Example: `  osaurus-sandbox config set cpus=4 memoryGB=4
  osaurus-sandbox config set network=none
  osaurus-sandbox config set mirrors=https://mirror.example.org/alpine,https://dl-cdn.alpinelinux.org/alpine`,
		Long: "Keys: " + strings.Join(config.Keys(), ", ") + ".",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			home, err := config.FindHome()
			if err != nil {
				return err
			}
			return config.Edit(home, func(f *config.File) error {
				for _, arg := range args {
					key, value, ok := strings.Cut(arg, "=")
					if !ok {
						return fault.New(fault.InvalidArgs, "set", arg, errors.New("no value")).Advise("Write KEY=VALUE.")
					}
					if err := f.Set(key, value); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// loadSettings is the home and what is chosen in it.
func loadSettings() (config.Home, config.Settings, error) {
	home, err := config.FindHome()
	if err != nil {
		return "", config.Settings{}, err
	}
	f, err := config.Load(home.SettingsFile())
	if err != nil {
		return "", config.Settings{}, err
	}
	return home, f.Settings(), nil
}
