package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
)

func newSession(c console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "List, show and close the persistent shells of agents",
		Long: `An agent's session is a shell that stays: a command in it finds the folder, variables, functions and background jobs that the
one before left. It is made when it is first used (exec --session, shell), and closed when nobody has used it for a while.
The end of what was typed and shown in it is kept until you close it, also over a restart of the guest.`,
		Example: `  osaurus-sandbox exec alice --session build -- 'cd src && ./configure'
  osaurus-sandbox exec alice --session build -- make
  osaurus-sandbox session show alice build
  osaurus-sandbox session close alice build`,
		Args: cobra.NoArgs,
		RunE: showHelp,
	}
	cmd.AddCommand(newSessionList(c), newSessionShow(c), newSessionClose())
	return cmd
}

func newSessionList(c console) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [AGENT]",
		Short: "List the sessions of an agent, or of all",
		Long:  "Lists sessions, and what each does. It starts no guest: without one, only those are listed of which a transcript is kept.",
		Example: `  osaurus-sandbox session list
  osaurus-sandbox session list alice`,
		Args: cobra.MaximumNArgs(1),
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Shells.List(cmd.Context(), &controlpb.ListSessionsRequest{Agent: first(args)})
			switch {
			case err != nil:
				return err
			case asJSON:
				return printProto(c.out, r)
			}
			table := newTable(c.out)
			fmt.Fprintln(table, "AGENT\tSESSION\tSTATE\tUSED\tATTACHED\tFOLDER\tCOMMAND")
			for _, s := range r.Sessions {
				writef(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", s.Agent, s.Session, s.State,
					when(s.Used), s.Attached, s.Dir, s.Command)
			}
			return table.Flush()
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newSessionShow(c console) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show AGENT SESSION",
		Short:   "Print the end of what was typed and shown in a session",
		Example: `  osaurus-sandbox session show alice build`,
		Args:    cobra.ExactArgs(2),
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Shells.Transcript(cmd.Context(), &controlpb.TranscriptRequest{Agent: args[0], Session: args[1]})
			switch {
			case err != nil:
				return err
			case asJSON:
				return printProto(c.out, r)
			}
			_, err = io.WriteString(c.out, string(lines(r.Text)))
			if n := len(r.Text); n > 0 && r.Text[n-1] != '\n' {
				_, end := io.WriteString(c.out, "\n")
				err = errors.Join(err, end)
			}
			return err
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newSessionClose() *cobra.Command {
	return &cobra.Command{
		Use:     "close AGENT SESSION",
		Short:   "End a session and all that runs in it, and forget its transcript",
		Example: `  osaurus-sandbox session close alice build`,
		Args:    cobra.ExactArgs(2),
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			_, err := client.Shells.Close(cmd.Context(), &controlpb.CloseSessionRequest{Agent: args[0], Session: args[1]})
			return err
		}),
	}
}
