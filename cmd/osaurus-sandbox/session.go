package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control/controlpb"
)

func newSession() *cobra.Command {
	return noun("session", `List, show and close the persistent shells of agents

A session is a shell that stays: each command finds the folder, variables, functions and background jobs of the one before. The
first use creates it (exec --session, shell). It ends when it was not used for a while. The end of its transcript is kept until
you close the session, even over restarts of the guest.`,
		`  osaurus-sandbox exec alice --session build -- 'cd src && ./configure'
  osaurus-sandbox exec alice --session build -- make
  osaurus-sandbox session show alice build
  osaurus-sandbox session close alice build`,
		newSessionList(), newSessionShow(), newSessionClose())
}

func newSessionList() *cobra.Command {
	return daemonCommand("list [AGENT]", `List the sessions of an agent, or of all agents

Lists sessions and their state. It does not start the guest: without one there are only transcripts.`,
		`  osaurus-sandbox session list
  osaurus-sandbox session list alice`, func(ctx context.Context, c *call) error {
			r, err := c.Shells.List(ctx, &controlpb.ListSessionsRequest{Agent: c.arg(0)})
			return replyTable(c, r, err, "AGENT\tSESSION\tSTATE\tUSED\tATTACHED\tFOLDER\tCOMMAND", r.GetSessions(), func(s *controlpb.Session) []any {
				return []any{s.Agent, s.Session, s.State, when(s.Used), s.Attached, s.Dir, s.Command}
			})
		})
}

func newSessionShow() *cobra.Command {
	return daemonCommand("show AGENT SESSION", "Print the end of a session's transcript",
		`  osaurus-sandbox session show alice build`, func(ctx context.Context, c *call) error {
			r, err := c.Shells.Transcript(ctx, &controlpb.TranscriptRequest{Agent: c.args[0], Session: c.args[1]})
			return reply(c, r, err, func(w io.Writer, r *controlpb.TranscriptResponse) error {
				end := ""
				if r.Text != "" && !strings.HasSuffix(r.Text, "\n") {
					end = "\n"
				}
				return writef(w, "%s%s", lines(r.Text), safe(end))
			})
		})
}

func newSessionClose() *cobra.Command {
	return daemonCommand("close AGENT SESSION", "End a session and all its programs, and delete its transcript",
		`  osaurus-sandbox session close alice build`, func(ctx context.Context, c *call) error {
			_, err := c.Shells.Close(ctx, &controlpb.CloseSessionRequest{Agent: c.args[0], Session: c.args[1]})
			return reply(c, map[string]string{"agent": c.args[0], "session": c.args[1]}, err, nil)
		})
}
