package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control/controlpb"
)

func newSession() *cobra.Command {
	return noun("session",
		daemonCommand("list [AGENT]", func(ctx context.Context, c *call) error {
			r, err := c.Shells.List(ctx, &controlpb.ListSessionsRequest{Agent: c.arg(0)})
			return replyTable(c, r, err, "AGENT\tSESSION\tSTATE\tUSED\tATTACHED\tFOLDER\tCOMMAND", r.GetSessions(), func(s *controlpb.Session) []any {
				return []any{s.Agent, s.Session, s.State, when(s.Used), s.Attached, s.Dir, s.Command}
			})
		}),
		daemonCommand("show AGENT SESSION", func(ctx context.Context, c *call) error {
			r, err := c.Shells.Transcript(ctx, &controlpb.TranscriptRequest{Agent: c.args[0], Session: c.args[1]})
			return reply(c, r, err, func(w io.Writer, r *controlpb.TranscriptResponse) error {
				end := ""
				if r.Text != "" && !strings.HasSuffix(r.Text, "\n") {
					end = "\n"
				}
				return writef(w, "%s%s", lines(r.Text), safe(end))
			})
		}),
		daemonCommand("close AGENT SESSION", func(ctx context.Context, c *call) error {
			_, err := c.Shells.Close(ctx, &controlpb.CloseSessionRequest{Agent: c.args[0], Session: c.args[1]})
			return reply(c, map[string]string{"agent": c.args[0], "session": c.args[1]}, err, nil)
		}))
}
