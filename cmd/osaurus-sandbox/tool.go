package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

func newToolList() *cobra.Command {
	var lean bool
	return daemonCommand("list AGENT", func(ctx context.Context, c *call) error {
		r, err := c.Tools.List(ctx, &controlpb.ListToolsRequest{Agent: c.args[0], Lean: lean})
		return replyTable(c, r, err, "NAME\tCHANGES\tWHAT", r.GetTools(), func(t *controlpb.Tool) []any {
			changes := "something"
			if t.ReadOnly {
				changes = "nothing"
			}
			return []any{t.Name, changes, t.Title}
		})
	}, withFlag(&lean, "lean", "only the tools that most work needs"))
}

func newToolDescribe() *cobra.Command {
	return daemonCommand("describe AGENT TOOL", func(ctx context.Context, c *call) error {
		r, err := c.Tools.List(ctx, &controlpb.ListToolsRequest{Agent: c.args[0]})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(r.Tools, func(t *controlpb.Tool) bool { return t.Name == c.args[1] })
		if i < 0 {
			return fault.Newf(fault.ToolNotFound, "describe tool", c.args[1], "the agent has no such tool").
				Advise("See `osaurus-sandbox tool list`; those that change something need its setting autonomousExec.enabled.")
		}
		return reply(c, r.Tools[i], nil, printTool)
	})
}

// printTool prints a tool's description and arguments.
func printTool(w io.Writer, t *controlpb.Tool) error {
	var schema struct {
		Properties map[string]struct {
			Type, Description string
			Default           json.RawMessage
			Enum              []any
		}
		Required []string
	}
	asWritten := json.NewDecoder(strings.NewReader(t.InputSchema))
	asWritten.UseNumber()
	if err := asWritten.Decode(&schema); err != nil {
		return err
	}
	writef(w, "%s: %s\n\n%s\n\n", t.Name, t.Title, lines(t.Description))
	return printTable(w, "ARGUMENT\tTYPE\tDEFAULT\tWHAT", slices.Sorted(maps.Keys(schema.Properties)), func(name string) []any {
		p := schema.Properties[name]
		usual := string(p.Default)
		if slices.Contains(schema.Required, name) {
			usual = "(required)"
		}
		what := p.Description
		if len(p.Enum) > 0 {
			what = strings.TrimSpace(choices(p.Enum) + "  " + what)
		}
		return []any{name, p.Type, usual, what}
	})
}

// choices lists the allowed values of an argument.
func choices(values []any) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, " | ")
}

func newToolCall() *cobra.Command {
	var turn, conversation string
	return command("call AGENT TOOL [JSON | KEY=VALUE...]", func(ctx context.Context, c *call) error {
		arguments, err := toolArguments(c.in, c.args[2:])
		if err != nil {
			return err
		}
		if err := c.connect(ctx); err != nil {
			return err
		}
		envelope, err := c.CallTool(ctx, &controlpb.CallToolRequest{
			Agent: c.args[0], Tool: c.args[1], Arguments: arguments, Turn: turn, Session: conversation,
		}, func(p *controlpb.ToolProgress) { writef(c.err, "%s\n", lines(p.Text)) })
		if err != nil {
			return err
		}
		return printEnvelope(c.console, c.args[1], envelope, c.json)
	},
		withFlag(&turn, "turn", "the `NAME` of the model's turn: maxCommandsPerTurn limits the commands in one"),
		withFlag(&conversation, "conversation", "the `NAME` of the conversation: its artifacts are kept together"))
}

// maxToolInput bounds standard input to what the API accepts.
const maxToolInput = 1 << 20

// toolArguments builds a JSON object from the command line. Values of KEY=VALUE are strings, which
// the tool converts.
func toolArguments(in io.Reader, args []string) (string, error) {
	if len(args) == 1 && args[0] == "-" {
		text, err := io.ReadAll(io.LimitReader(in, maxToolInput+1))
		if err == nil && len(text) > maxToolInput {
			err = fault.Newf(fault.InvalidArgs, "read arguments", "-", "they are more than %d bytes", maxToolInput).
				Advise("Put long text into a file in the agent's home, and pass its path.")
		}
		return string(text), err
	}
	if len(args) == 1 && strings.HasPrefix(strings.TrimSpace(args[0]), "{") {
		return args[0], nil
	}
	given := map[string]string{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return "", fault.Newf(fault.InvalidArgs, "read arguments", arg, "neither KEY=VALUE nor a JSON object").
				Advise("See `osaurus-sandbox tool describe`.")
		}
		given[key] = value
	}
	text, err := json.Marshal(given)
	return string(text), err
}

// printEnvelope prints a tool's result, or returns its failure as an error.
func printEnvelope(c console, tool, envelope string, asJSON bool) error {
	var e struct {
		OK       bool
		Result   json.RawMessage
		Warnings []string
		Kind     fault.Kind
		Message  string
		Expected string
		// The output of a command that failed.
		Stdout, Stderr, Output string
	}
	if err := json.Unmarshal([]byte(envelope), &e); err != nil {
		return fault.New(fault.Execution, "read answer of tool", tool, err)
	}
	for _, w := range e.Warnings {
		writef(c.err, "warning: %s\n", w)
	}
	switch {
	case asJSON:
		if _, err := io.WriteString(c.out, harmlessJSON([]byte(envelope))+"\n"); err != nil {
			return err
		}
	case e.OK:
		if err := printJSON(c.out, e.Result); err != nil {
			return err
		}
	default:
		for line := range strings.Lines(e.Stdout + e.Stderr + e.Output) {
			writef(c.err, "  | %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	if !e.OK {
		failed := fault.New(e.Kind, "call tool", tool, errors.New(e.Message))
		if e.Expected != "" {
			failed = failed.Advise("Expected: " + strings.TrimSuffix(e.Expected, ".") + ".")
		}
		return failed
	}
	return nil
}
