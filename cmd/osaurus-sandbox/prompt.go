package main

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/fault"
)

func newPrompt(c console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prompt",
		Short: "Answer what agents and apps ask you for",
		Long: `Whatever needs something that only you can give asks for it with a prompt, and waits: for the value of a secret. Any terminal can
answer it, once. What you answer goes into the store of secrets, and nowhere else. What is said beside a prompt comes from
who asks: do not trust it.`,
		Example: `  osaurus-sandbox prompt watch
  osaurus-sandbox prompt answer 1f0c9a3e
  osaurus-sandbox prompt cancel 1f0c9a3e`,
		Args: cobra.NoArgs,
		RunE: showHelp,
	}
	cmd.AddCommand(newPromptList(c), newPromptWatch(c), newPromptAnswer(c), newPromptCancel(c))
	return cmd
}

func newPromptList(c console) *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the prompts that wait for an answer, the oldest first",
		Example: `  osaurus-sandbox prompt list
  osaurus-sandbox prompt list --all`,
		Args: cobra.NoArgs,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, _ []string) error {
			r, err := client.Prompts.List(cmd.Context(), &controlpb.ListPromptsRequest{Ended: all})
			switch {
			case err != nil:
				return err
			case asJSON:
				return printProto(c.out, r)
			}
			table := newTable(c.out)
			fmt.Fprintln(table, "PROMPT\tAGENT\tASKS FOR\tSTATE\tUNTIL\tBECAUSE")
			for _, p := range r.Prompts {
				writef(table, "%s\t%s\t%s\t%s\t%s\t%s\n", p.Id, p.Agent, askedFor(p), p.State, when(p.Deadline), oneLine(p.Text))
			}
			return table.Flush()
		}),
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&all, "all", false, "also those that have ended last")
	return cmd
}

// askedFor is what a prompt asks for, in a few words.
func askedFor(p *controlpb.Prompt) string {
	if p.Plugin == "" {
		return "secret " + p.Secret
	}
	return "secret " + p.Secret + " of plugin " + p.Plugin
}

// printPrompt shows all of a prompt. What the agent says stands apart from what
// this program says.
func printPrompt(w io.Writer, p *controlpb.Prompt) error {
	const usual = 80 // columns, of a terminal that comes to read it later
	var text safe
	if p.Text != "" {
		text = framed(p.Text, "  | ", cmp.Or(terminalWidth(w), usual))
	}
	_, err := writef(w, "%s  %s asks for %s, until %s\n%s", p.Id, p.Agent, askedFor(p), p.Deadline.AsTime().Local().Format(time.TimeOnly), text)
	return err
}

func newPromptWatch(c console) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "watch",
		Short:   "Show prompts as they come",
		Long:    "Shows the prompts that wait, and each new one, until you press Ctrl-C. Answer them from another terminal. With --json, all that wait are printed on one line whenever they are others.",
		Example: `  osaurus-sandbox prompt watch`,
		Args:    cobra.NoArgs,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, _ []string) error {
			shown := map[string]bool{}
			for r, err := range control.Messages(client.Prompts.Watch(cmd.Context(), &controlpb.WatchPromptsRequest{})) {
				if err == nil && asJSON {
					err = printLine(c.out, r)
				}
				if err != nil {
					return err
				}
				if asJSON {
					continue
				}
				for _, p := range r.Prompts {
					if shown[p.Id] {
						continue
					}
					shown[p.Id] = true
					if err := printPrompt(c.out, p); err != nil {
						return err
					}
				}
			}
			return nil
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newPromptAnswer(c console) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "answer [PROMPT]",
		Short: "Answer a prompt, or the oldest that waits",
		Long: `The answer is read from standard input, without a newline at its end, or asked for on the terminal and not
shown. It goes into the store of secrets, and nowhere else.`,
		Example: `  osaurus-sandbox prompt answer
  pass show work/token | osaurus-sandbox prompt answer 1f0c9a3e`,
		Args: cobra.MaximumNArgs(1),
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
			if err != nil {
				return err
			}
			return printSettled(c.out, "kept", r.Taken, r.Prompt, asJSON)
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// findPrompt is the prompt that is meant: by its id, or the oldest.
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
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "cancel PROMPT",
		Short:   "Say no to a prompt",
		Example: `  osaurus-sandbox prompt cancel 1f0c9a3e`,
		Args:    cobra.ExactArgs(1),
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Prompts.Cancel(cmd.Context(), &controlpb.CancelPromptRequest{Id: args[0]})
			if err != nil {
				return err
			}
			// To say no twice is to say no.
			return printSettled(c.out, "cancelled", r.Taken || r.Prompt.State == "cancelled", r.Prompt, asJSON)
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// printSettled says how a prompt ended. If it did so before, that is an error:
// nothing was done.
func printSettled(w io.Writer, done string, taken bool, p *controlpb.Prompt, asJSON bool) error {
	if !taken {
		return fault.Newf(fault.Rejected, "answer prompt", p.Id, "it was %s before, by %s: nothing was kept", p.State, p.Cause).
			Advise("See `osaurus-sandbox prompt list`.")
	}
	if asJSON {
		return printProto(w, p)
	}
	_, err := writef(w, "%s %s of agent %s\n", done, askedFor(p), p.Agent)
	return err
}
