package main

import (
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/daemon"
)

func newServe(c console) *cobra.Command {
	var tcp control.TCP
	var quiet, rest bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the sandbox's daemon in the foreground",
		Long: `Runs the daemon that owns the sandbox and answers the API, until a signal or "down --daemon" ends it and the guest with it.
Other commands start it by themselves, in the background.

With --listen it also listens on TCP, for apps that cannot use Unix sockets. They send the token that is in config/api-token of the
home: "Authorization: Bearer TOKEN".`,
		Example: `  osaurus-sandbox serve
  osaurus-sandbox serve --listen 127.0.0.1:8137 --origin https://app.example`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := config.FindHome()
			if err != nil {
				return err
			}
			o := daemon.Options{Home: home, Driver: driver(), Program: build(), AtRest: rest}
			if !quiet {
				o.Log = c.err
			}
			if tcp.Address != "" {
				o.TCP = &tcp
			}
			return daemon.Run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&tcp.Address, "listen", "", "listen on this TCP address too, as in 127.0.0.1:8137")
	f.BoolVar(&tcp.Exposed, "expose", false, "allow an address that other computers can reach")
	f.StringArrayVar(&tcp.Hosts, "host", nil, "another name that the TCP listener is called by")
	f.StringArrayVar(&tcp.Origins, "origin", nil, "a web page's origin that may call the TCP listener")
	f.BoolVar(&quiet, quietFlag, false, "write to the log in the home only")
	f.BoolVar(&rest, restFlag, false, "start no guest until it is needed, whatever the setting autoStart says")
	return cmd
}

// quietFlag is what a daemon in the background is started with, and restFlag too
// where it is to do away with the guest.
const quietFlag, restFlag = "quiet", "at-rest"

// build names the build of this program by its version and commit.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	if commit := commitOf(info); commit != "" && !strings.Contains(version, commit[:min(len(commit), 12)]) {
		version += " " + commit
	}
	return version
}

// commitOf returns the commit that a program was built from, or "" if it is not known.
func commitOf(info *debug.BuildInfo) string {
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
