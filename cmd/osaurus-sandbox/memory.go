package main

import (
	"context"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

func newMemory() *cobra.Command {
	return noun("memory", newMemoryList(), newMemorySearch(), newMemoryAdd(), newMemoryPin(), newMemoryDelete(), newMemoryExport())
}

// facts returns an agent's facts, oldest first.
func facts(ctx context.Context, client *control.Client, agent string) iter.Seq2[*controlpb.ListFactsResponse, error] {
	return control.Messages(client.Memory.List(ctx, &controlpb.ListFactsRequest{Agent: agent}))
}

func printFacts(w io.Writer, r *controlpb.SearchFactsResponse) error {
	return printTable(w, "ID\tCREATED\tPINNED\tSOURCE\tFACT", r.Facts, func(f *controlpb.Fact) []any {
		pinned := ""
		if f.Pinned {
			pinned = "pinned"
		}
		return []any{f.Id, when(f.Created), pinned, f.Source, printable.Clip(f.Content)}
	})
}

func newMemoryList() *cobra.Command {
	return daemonCommand("list AGENT", func(ctx context.Context, c *call) error {
		list, err := collect(facts(ctx, c.Client, c.args[0]), (*controlpb.ListFactsResponse).GetFact)
		return reply(c, &controlpb.SearchFactsResponse{Facts: list}, err, printFacts)
	})
}

func newMemoryExport() *cobra.Command {
	return daemonCommand("export AGENT", func(ctx context.Context, c *call) error {
		return replyRows(c, facts(ctx, c.Client, c.args[0]), (*controlpb.ListFactsResponse).GetFact, "", nil)
	}, alwaysJSON)
}

func newMemorySearch() *cobra.Command {
	limit := uint32(10)
	return daemonCommand("search AGENT [WORD...]", func(ctx context.Context, c *call) error {
		r, err := c.Memory.Search(ctx, &controlpb.SearchFactsRequest{Agent: c.args[0], Query: strings.Join(c.args[1:], " "), Limit: limit})
		return reply(c, r, err, printFacts)
	},
		withFlag(&limit, "limit", "print at most this many facts, up to 100"))
}

func newMemoryAdd() *cobra.Command {
	var pin bool
	return daemonCommand("add AGENT WORD...", func(ctx context.Context, c *call) error {
		r, err := c.Memory.Add(ctx, &controlpb.AddFactRequest{Agent: c.args[0], Content: strings.Join(c.args[1:], " "), Pinned: pin})
		return reply(c, r.GetFact(), err, func(w io.Writer, f *controlpb.Fact) error { return writef(w, "%d\n", f.Id) })
	},
		withFlag(&pin, "pin", "never forget it to make room, and find it before others"))
}

func newMemoryPin() *cobra.Command {
	var undo bool
	return daemonCommand("pin AGENT FACT", func(ctx context.Context, c *call) error {
		id, err := parseID("fact", c.args[1])
		if err != nil {
			return err
		}
		r, err := c.Memory.Pin(ctx, &controlpb.PinFactRequest{Agent: c.args[0], Id: id, Pinned: !undo})
		return reply(c, r.GetFact(), err, nil)
	}, withFlag(&undo, "undo", "let it be forgotten again"))
}

func newMemoryDelete() *cobra.Command {
	var all, yes bool
	return command("delete AGENT [FACT]", func(ctx context.Context, c *call) (err error) {
		request := &controlpb.DeleteFactsRequest{Agent: c.args[0], All: all}
		switch {
		case all != (len(c.args) == 1):
			return fault.Newf(fault.InvalidArgs, "delete memory", "", "name one fact or use --all").Advise("Write its id, or --all.")
		case all:
			err = confirm(ctx, c.console, yes, "delete all facts of "+c.args[0], "All that the agent remembers will be gone.")
		default:
			request.Id, err = parseID("fact", c.args[1])
		}
		if err == nil {
			err = c.connect(ctx)
		}
		if err != nil {
			return err
		}
		r, err := c.Memory.Delete(ctx, request)
		return reply(c, r, err, nil)
	},
		withFlag(&all, "all", "forget all facts"),
		withFlag(&yes, "yes", "do not ask for confirmation"))
}

// parseID parses the number of a fact or an artifact.
func parseID(kind, text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fault.Newf(fault.InvalidArgs, "find "+kind, text, "not a number")
	}
	return id, nil
}
