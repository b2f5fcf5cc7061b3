package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
)

func newSession(c console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "List, show and close the persistent shells of agents",
		Long: `A session is a shell of an agent that stays: a command in it finds the folder, variables, functions and background jobs of the one
before. It is made when it is first used (exec --session, shell), and ends when nobody has used it for a while. The end of its
transcript is kept until you close it, even if the guest is restarted.`,
		Example: `  osaurus-sandbox exec alice --session build -- 'cd src && ./configure'
  osaurus-sandbox exec alice --session build -- make
  osaurus-sandbox session show alice build
  osaurus-sandbox session close alice build`,
	}
	cmd.AddCommand(newSessionList(c), newSessionShow(c), newSessionClose())
	return cmd
}

func newSessionList(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "list [AGENT]",
		Short: "List the sessions of an agent, or of all",
		Long:  "Lists sessions, and what each does. It does not start the guest: if that does not run, there are only transcripts.",
		Example: `  osaurus-sandbox session list
  osaurus-sandbox session list alice`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Shells.List(cmd.Context(), &controlpb.ListSessionsRequest{Agent: first(args)})
			return replyTable(cmd, r, err, "AGENT\tSESSION\tSTATE\tUSED\tATTACHED\tFOLDER\tCOMMAND", r.GetSessions(), func(s *controlpb.Session) []any {
				return []any{s.Agent, s.Session, s.State, when(s.Used), s.Attached, s.Dir, s.Command}
			})
		}),
	})
}

func newSessionShow(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "show AGENT SESSION",
		Short:   "Print the end of what was typed and shown in a session",
		Example: `  osaurus-sandbox session show alice build`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Shells.Transcript(cmd.Context(), &controlpb.TranscriptRequest{Agent: args[0], Session: args[1]})
			return reply(cmd, r, err, func(w io.Writer, r *controlpb.TranscriptResponse) error {
				end := ""
				if r.Text != "" && !strings.HasSuffix(r.Text, "\n") {
					end = "\n"
				}
				return writef(w, "%s%s", lines(r.Text), safe(end))
			})
		}),
	})
}

func newSessionClose() *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "close AGENT SESSION",
		Short:   "End a session and all that runs in it, and forget its transcript",
		Example: `  osaurus-sandbox session close alice build`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			_, err := client.Shells.Close(cmd.Context(), &controlpb.CloseSessionRequest{Agent: args[0], Session: args[1]})
			return reply(cmd, map[string]string{"agent": args[0], "session": args[1]}, err, nil)
		}),
	})
}
