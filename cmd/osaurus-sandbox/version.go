package main

import (
	"context"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"osaurus-sandbox/internal/fault"
)

// versions describes this program and the running daemon.
type versions struct {
	Version  string         `json:"version"`
	Go       string         `json:"go"`
	Platform string         `json:"platform"`
	Daemon   *daemonVersion `json:"daemon,omitempty"` // nil if none answers
}

// daemonVersion describes the daemon of the home.
type daemonVersion struct {
	Program string `json:"program"`
	PID     int32  `json:"pid"`
}

func newVersion() *cobra.Command {
	return command("version", func(ctx context.Context, c *call) error {
		v := versions{Version: build(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
		if err := c.reach(ctx); err == nil {
			if hello, err := c.Hello(ctx); err == nil {
				v.Daemon = &daemonVersion{hello.Program, hello.Pid}
			}
			noteAnotherBuild(ctx, c)
		} else if fault.KindOf(err) != fault.Unavailable {
			writef(c.err, "%v\n", err)
		}
		return reply(c, v, nil, func(w io.Writer, v versions) error {
			err := writef(w, "osaurus-sandbox %s, %s, %s\n", v.Version, v.Go, v.Platform)
			if v.Daemon != nil {
				err = writef(w, "daemon %s, process %d\n", v.Daemon.Program, v.Daemon.PID)
			}
			return err
		})
	})
}

// noteAnotherBuild warns if the running daemon is not of this build.
func noteAnotherBuild(ctx context.Context, c *call) {
	if hello, err := c.Hello(ctx); err == nil && hello.Program != build() {
		writef(c.err, "the daemon is %s: another build than this; `osaurus-sandbox down --daemon` ends it, and the next command starts this one\n", hello.Program)
	}
}
