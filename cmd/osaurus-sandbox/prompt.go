package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor/prompts"
)

func newPromptList() *cobra.Command {
	var all bool
	return daemonCommand("list", func(ctx context.Context, c *call) error {
		r, err := c.Prompts.List(ctx, &controlpb.ListPromptsRequest{Ended: all})
		return replyTable(c, r, err, "PROMPT\tAGENT\tASKS FOR\tSTATE\tUNTIL\tBECAUSE", r.GetPrompts(), func(p *controlpb.Prompt) []any {
			return []any{p.Id, p.Agent, askedFor(p), p.State, when(p.Deadline), oneLine(p.Text)}
		})
	}, withFlag(&all, "all", "also list prompts that ended recently"))
}

// askedFor describes what a prompt asks for.
func askedFor(p *controlpb.Prompt) string {
	plugin := ""
	switch p.Kind {
	case string(prompts.KindSecret):
		if p.Plugin != "" {
			plugin = " of plugin " + p.Plugin
		}
		return "secret " + p.Secret + plugin
	case string(prompts.KindNetwork):
		if p.Plugin != "" {
			plugin = " its plugin " + p.Plugin
		}
		return "the network, to connect" + plugin + " to " + p.What
	}
	return "approval, " + p.What
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

func newPromptWatch() *cobra.Command {
	return daemonCommand("watch", func(ctx context.Context, c *call) error {
		shown := map[string]bool{}
		prompts := control.Messages(c.Prompts.Watch(ctx, &controlpb.WatchPromptsRequest{}))
		return replyEach(c, prompts, func(w io.Writer, r *controlpb.WatchPromptsResponse) error {
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
	})
}

func newPromptAnswer() *cobra.Command {
	return daemonCommand("answer [PROMPT [CHOICE]]", func(ctx context.Context, c *call) error {
		p, err := findPrompt(ctx, c.Client, c.arg(0))
		if err != nil {
			return err
		}
		if err := printPrompt(c.err, p); err != nil {
			return err
		}
		answer := &controlpb.AnswerPromptRequest{Id: p.Id, Choice: c.arg(1)}
		switch {
		case p.Kind != string(prompts.KindSecret) && answer.Choice == "":
			answer.Choice, err = readChoice(ctx, c.console, prompts.Kind(p.Kind))
		case p.Kind == string(prompts.KindSecret) && answer.Choice != "":
			err = fault.Newf(fault.InvalidArgs, "answer prompt", p.Id, "it asks for a secret, which does not belong on a command line").
				Advise("Type it when asked: osaurus-sandbox prompt answer " + p.Id)
		case p.Kind == string(prompts.KindSecret):
			var value secrets.Value
			value, err = readSecret(ctx, c.console, askedFor(p)+" of agent "+p.Agent)
			answer.Value = value.Reveal()
		}
		if err != nil {
			return err
		}
		r, err := c.Prompts.Answer(ctx, answer)
		return replySettled(c, cmp.Or(answer.Choice, "kept"), r.GetTaken(), r.GetPrompt(), err)
	})
}

// readChoice reads an answer to a prompt of a kind.
func readChoice(ctx context.Context, con console, kind prompts.Kind) (string, error) {
	if canAsk(con) {
		writef(con.err, "%s? ", strings.Trim(fmt.Sprint(kind.Choices()), "[]"))
	}
	text, err := typedLine(ctx, bufio.NewReader(con.in))
	if err != nil && text == "" {
		return "", fault.Newf(fault.UserDenied, "read answer", "", "nothing was typed").Advise("Write it as an argument: osaurus-sandbox prompt answer PROMPT " + string(kind.Choices()[0]))
	}
	choice, err := prompts.ParseChoice(strings.TrimSpace(text))
	return string(choice), err
}

// findPrompt returns the prompt with an id, or the oldest that waits.
func findPrompt(ctx context.Context, client *control.Client, id string) (*controlpb.Prompt, error) {
	r, err := client.Prompts.List(ctx, &controlpb.ListPromptsRequest{})
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

func newPromptCancel() *cobra.Command {
	return daemonCommand("cancel PROMPT", func(ctx context.Context, c *call) error {
		r, err := c.Prompts.Answer(ctx, &controlpb.AnswerPromptRequest{Id: c.args[0], Cancel: true})
		// Cancelling twice is not an error.
		return replySettled(c, "cancelled", r.GetTaken() || r.GetPrompt().GetState() == "cancelled", r.GetPrompt(), err)
	})
}

// replySettled prints how a prompt ended. If it had ended before, it returns an error.
func replySettled(c *call, done string, taken bool, p *controlpb.Prompt, err error) error {
	if err == nil && !taken {
		err = fault.Newf(fault.Rejected, "answer prompt", p.Id, "it was already %s by %s: nothing was kept", p.State, p.Cause).
			Advise("See `osaurus-sandbox prompt list`.")
	}
	return reply(c, p, err, func(w io.Writer, p *controlpb.Prompt) error {
		switch p.Kind {
		case string(prompts.KindSecret):
			return writef(w, "%s %s of agent %s\n", done, askedFor(p), p.Agent)
		case string(prompts.KindNetwork):
			return writef(w, "%s: agent %s to %s\n", done, p.Agent, p.What)
		}
		return writef(w, "%s: agent %s %s\n", done, p.Agent, p.What)
	})
}
