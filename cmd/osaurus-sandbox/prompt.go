package main

import (
	"cmp"
	"io"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

func newPrompt(c console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prompt",
		Short: "Answer what agents and apps ask you for",
		Long: `If an agent, a plugin or an app needs a secret that is not there, it asks you for it with a prompt, and waits. You can answer it from
any terminal, once. Your answer goes into the store of secrets, and nowhere else. The text of a prompt was written by whoever asks: do
not trust it.`,
		Example: `  osaurus-sandbox prompt watch
  osaurus-sandbox prompt answer 1f0c9a3e
  osaurus-sandbox prompt cancel 1f0c9a3e`,
	}
	cmd.AddCommand(newPromptList(c), newPromptWatch(c), newPromptAnswer(c), newPromptCancel(c))
	return cmd
}

func newPromptList(c console) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the prompts that wait for an answer, the oldest first",
		Example: `  osaurus-sandbox prompt list
  osaurus-sandbox prompt list --all`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, _ []string) error {
			r, err := client.Prompts.List(cmd.Context(), &controlpb.ListPromptsRequest{Ended: all})
			return replyTable(cmd, r, err, "PROMPT\tAGENT\tASKS FOR\tSTATE\tUNTIL\tBECAUSE", r.GetPrompts(), func(p *controlpb.Prompt) []any {
				return []any{p.Id, p.Agent, askedFor(p), p.State, when(p.Deadline), oneLine(p.Text)}
			})
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that ended recently")
	return withJSON(cmd)
}

// askedFor describes what a prompt asks for.
func askedFor(p *controlpb.Prompt) string {
	if p.Plugin == "" {
		return "secret " + p.Secret
	}
	return "secret " + p.Secret + " of plugin " + p.Plugin
}

// printPrompt prints a prompt. The agent's text is framed, to set it apart from this program's.
func printPrompt(w io.Writer, p *controlpb.Prompt) error {
	const usual = 80 // columns, if the output is not a terminal
	var text safe
	if p.Text != "" {
		text = framed(p.Text, "  | ", cmp.Or(terminalWidth(w), usual))
	}
	return writef(w, "%s  %s asks for %s, until %s\n%s", p.Id, p.Agent, askedFor(p), p.Deadline.AsTime().Local().Format(time.TimeOnly), text)
}

func newPromptWatch(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "watch",
		Short:   "Show prompts as they come",
		Long:    "Shows the prompts that wait, and each new one, until you press Ctrl-C. Answer them from another terminal. With --json it prints a\nline with all that wait whenever one comes or goes.",
		Example: `  osaurus-sandbox prompt watch`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, _ []string) error {
			shown := map[string]bool{}
			prompts := control.Messages(client.Prompts.Watch(cmd.Context(), &controlpb.WatchPromptsRequest{}))
			return replyEach(cmd, prompts, func(w io.Writer, r *controlpb.WatchPromptsResponse) error {
				for _, p := range r.Prompts {
					if shown[p.Id] {
						continue
					}
					shown[p.Id] = true
					if err := printPrompt(w, p); err != nil {
						return err
					}
				}
				return nil
			})
		}),
	})
}

func newPromptAnswer(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "answer [PROMPT]",
		Short: "Answer a prompt, or the oldest that waits",
		Long: `On a terminal you type the answer, which is not shown. Otherwise it is read from standard input, without a newline at its end. It
goes into the store of secrets, and nowhere else.`,
		Example: `  osaurus-sandbox prompt answer
  pass show work/token | osaurus-sandbox prompt answer 1f0c9a3e`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			p, err := findPrompt(cmd, client, first(args))
			if err != nil {
				return err
			}
			if err := printPrompt(c.err, p); err != nil {
				return err
			}
			value, err := readSecret(cmd.Context(), c, askedFor(p)+" of agent "+p.Agent)
			if err != nil {
				return err
			}
			r, err := client.Prompts.Answer(cmd.Context(), &controlpb.AnswerPromptRequest{Id: p.Id, Value: value.Reveal()})
			return replySettled(cmd, "kept", r.GetTaken(), r.GetPrompt(), err)
		}),
	})
}

// findPrompt returns the prompt with an id, or the oldest that waits.
func findPrompt(cmd *cobra.Command, client *control.Client, id string) (*controlpb.Prompt, error) {
	r, err := client.Prompts.List(cmd.Context(), &controlpb.ListPromptsRequest{})
	if err != nil {
		return nil, err
	}
	for _, p := range r.Prompts {
		if id == "" || p.Id == id {
			return p, nil
		}
	}
	return nil, fault.Newf(fault.NotFound, "find prompt", id, "none waits").Advise("See `osaurus-sandbox prompt list --all`.")
}

func newPromptCancel(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "cancel PROMPT",
		Short:   "Say no to a prompt",
		Example: `  osaurus-sandbox prompt cancel 1f0c9a3e`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Prompts.Cancel(cmd.Context(), &controlpb.CancelPromptRequest{Id: args[0]})
			// Cancelling twice is not an error.
			return replySettled(cmd, "cancelled", r.GetTaken() || r.GetPrompt().GetState() == "cancelled", r.GetPrompt(), err)
		}),
	})
}

// replySettled prints how a prompt ended. If it had ended before, it returns an error.
func replySettled(cmd *cobra.Command, done string, taken bool, p *controlpb.Prompt, err error) error {
	if err == nil && !taken {
		err = fault.Newf(fault.Rejected, "answer prompt", p.Id, "it was %s before, by %s: nothing was kept", p.State, p.Cause).
			Advise("See `osaurus-sandbox prompt list`.")
	}
	return reply(cmd, p, err, func(w io.Writer, p *controlpb.Prompt) error {
		return writef(w, "%s %s of agent %s\n", done, askedFor(p), p.Agent)
	})
}
