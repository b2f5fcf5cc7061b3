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
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

func newVersion() *cobra.Command {
	return command("version", func(ctx context.Context, c *call) error {
		v := versions{build(), "", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, askVersion(ctx, c)}
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" {
					v.Revision = s.Value
				}
			}
		}
		return reply(c, v, nil, printVersions)
	})
}

// versions describes this program and the running daemon.
type versions struct {
	Version  string         `json:"version"`
	Revision string         `json:"revision,omitempty"`
	Go       string         `json:"go"`
	Platform string         `json:"platform"`
	Daemon   *daemonVersion `json:"daemon,omitempty"` // nil if none runs
}

func printVersions(w io.Writer, v versions) error {
	err := writef(w, "osaurus-sandbox %s, %s, %s\n", build(), v.Go, v.Platform)
	if err == nil && v.Daemon != nil {
		err = writef(w, "daemon %s\n", v.Daemon)
	}
	return err
}

// daemonVersion describes the daemon of the home.
type daemonVersion struct {
	Program string `json:"program,omitempty"`
	PID     int32  `json:"pid,omitempty"`
	Trouble string `json:"trouble,omitempty"` // why it did not answer
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

// noteAnotherBuild warns if the running daemon is not of this build.
func noteAnotherBuild(ctx context.Context, c *call) {
	if hello, err := c.Hello(ctx); err == nil && hello.Program != build() {
		writef(c.err, "the daemon is %s: %s\n", hello.Program, anotherBuild)
	}
}

// askVersion asks the daemon of the home, if one runs. It waits two seconds at most.
func askVersion(ctx context.Context, c *call) *daemonVersion {
	const limit = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	home, err := config.FindHome()
	if err == nil {
		c.Client, err = control.Connect(ctx, home, clientName)
	}
	if fault.KindOf(err) == fault.Unavailable {
		return nil
	}
	var hello *controlpb.HelloResponse
	if err == nil {
		hello, err = c.Hello(ctx)
	}
	if err != nil {
		return &daemonVersion{Trouble: err.Error()}
	}
	return &daemonVersion{Program: hello.Program, PID: hello.Pid}
}
