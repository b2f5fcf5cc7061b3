package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/internal/fault"
)

// versionLimit is how long a daemon has to say its own: nobody asks for a
// version to wait for it.
const versionLimit = 2 * time.Second

func newVersion(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "version",
		Short:   "Show this program's version, and the running daemon's",
		Example: `  osaurus-sandbox version`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versions{"unknown", "", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, askVersion(cmd.Context())}
			if info, ok := debug.ReadBuildInfo(); ok {
				v.Version = info.Main.Version
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v.Revision = s.Value
					}
				}
			}
			return reply(cmd, v, nil, printVersions)
		},
	})
}

// versions is which programs are there.
type versions struct {
	Version  string         `json:"version"`
	Revision string         `json:"revision,omitempty"`
	Go       string         `json:"go"`
	Platform string         `json:"platform"`
	Daemon   *daemonVersion `json:"daemon,omitempty"` // none runs
}

func printVersions(w io.Writer, v versions) error {
	err := writef(w, "osaurus-sandbox %s, %s, %s\n", v.Version, v.Go, v.Platform)
	if err == nil && v.Daemon != nil {
		err = writef(w, "daemon %s\n", v.Daemon)
	}
	return err
}

// daemonVersion is which program the daemon of the home is.
type daemonVersion struct {
	Program string `json:"program,omitempty"`
	PID     int32  `json:"pid,omitempty"`
	Trouble string `json:"trouble,omitempty"` // why it does not say
}

func (v daemonVersion) String() string {
	if v.Trouble != "" {
		return v.Trouble
	}
	text := fmt.Sprintf("%s, process %d", v.Program, v.PID)
	if v.Program != build() {
		text += ": " + anotherBuild
	}
	return text
}

const anotherBuild = "another build than this; `osaurus-sandbox down --daemon` ends it, and the next command starts this one"

// noteAnotherBuild tells a person who has replaced the program that the daemon is
// still the one before.
func noteAnotherBuild(ctx context.Context, c console, client *control.Client) {
	if hello, err := client.Hello(ctx); err == nil && hello.Program != build() {
		writef(c.err, "the daemon is %s: %s\n", hello.Program, anotherBuild)
	}
}

// askVersion asks the daemon of the home, if one runs.
func askVersion(ctx context.Context) *daemonVersion {
	home, err := config.FindHome()
	if err != nil {
		return nil // which matters to all other commands
	}
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	client, err := control.Connect(ctx, home, clientName)
	if fault.KindOf(err) == fault.Unavailable {
		return nil
	}
	if err == nil {
		defer client.Close()
		hello, failed := client.Hello(ctx)
		if failed == nil {
			return &daemonVersion{Program: hello.Program, PID: hello.Pid}
		}
		err = failed
	}
	return &daemonVersion{Trouble: err.Error()}
}
