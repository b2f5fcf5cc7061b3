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

func newMemory(c console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "See and change what agents remember",
		Long: `Programs of an agent store facts and search for them (osaurus-host agent memory). 2,000 are kept for each agent; beyond that, the
oldest of the least important ones is forgotten. A fact that you have pinned is never forgotten, and one that you have added is not
forgotten for one that a program stores. Searches find your facts first.`,
		Example: `  osaurus-sandbox memory add alice --pin The repository is in /workspace/shared/site
  osaurus-sandbox memory search alice where is the repository
  osaurus-sandbox memory export alice > alice.jsonl`,
	}
	cmd.AddCommand(newMemoryList(c), newMemorySearch(c), newMemoryAdd(c), newMemoryPin(c), newMemoryDelete(c), newMemoryExport(c))
	return cmd
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

func newMemoryList(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "list AGENT",
		Short:   "List all facts of an agent, the oldest first",
		Example: `  osaurus-sandbox memory list alice`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			list, err := collect(facts(cmd.Context(), client, args[0]), (*controlpb.ListFactsResponse).GetFact)
			return reply(cmd, &controlpb.SearchFactsResponse{Facts: list}, err, printFacts)
		}),
	})
}

func newMemoryExport(c console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "export AGENT",
		Short:   "Print all facts of an agent as JSON, one a line",
		Example: `  osaurus-sandbox memory export alice > alice.jsonl`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			return replyRows(cmd, facts(cmd.Context(), client, args[0]), (*controlpb.ListFactsResponse).GetFact, "", nil)
		}),
	}
	alwaysJSON(cmd)
	return cmd
}

func newMemorySearch(c console) *cobra.Command {
	var limit uint32
	cmd := &cobra.Command{
		Use:     "search AGENT [WORD...]",
		Short:   "Search an agent's memory, best match first",
		Example: `  osaurus-sandbox memory search alice where is the repository`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Memory.Search(cmd.Context(), &controlpb.SearchFactsRequest{Agent: args[0], Query: strings.Join(args[1:], " "), Limit: limit})
			return reply(cmd, r, err, printFacts)
		}),
	}
	cmd.Flags().Uint32Var(&limit, "limit", 10, "the most facts to print, up to 100")
	return withJSON(cmd)
}

func newMemoryAdd(c console) *cobra.Command {
	var pin bool
	cmd := &cobra.Command{
		Use:     "add AGENT WORD...",
		Short:   "Add a fact, and print its id",
		Example: `  osaurus-sandbox memory add alice --pin The repository is in /workspace/shared/site`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Memory.Add(cmd.Context(), &controlpb.AddFactRequest{Agent: args[0], Content: strings.Join(args[1:], " "), Pinned: pin})
			return reply(cmd, r.GetFact(), err, func(w io.Writer, f *controlpb.Fact) error { return writef(w, "%d\n", f.Id) })
		}),
	}
	cmd.Flags().BoolVar(&pin, "pin", false, "never forget it to make room, and find it before others")
	return withJSON(cmd)
}

func newMemoryPin(c console) *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use:   "pin AGENT FACT",
		Short: "Keep a fact from being forgotten to make room",
		Example: `  osaurus-sandbox memory pin alice 7
  osaurus-sandbox memory pin alice 7 --undo`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			id, err := parseID("fact", args[1])
			if err != nil {
				return err
			}
			r, err := client.Memory.Pin(cmd.Context(), &controlpb.PinFactRequest{Agent: args[0], Id: id, Pinned: !undo})
			return reply(cmd, r.GetFact(), err, nil)
		}),
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "let it be forgotten again")
	return withJSON(cmd)
}

func newMemoryDelete(c console) *cobra.Command {
	var all, yes bool
	cmd := &cobra.Command{
		Use:   "delete AGENT [FACT]",
		Short: "Forget a fact of an agent, or all",
		Example: `  osaurus-sandbox memory delete alice 7
  osaurus-sandbox memory delete alice --all`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) (err error) {
			if all != (len(args) == 1) {
				return fault.Newf(fault.InvalidArgs, "delete memory", "", "name one fact or use --all").Advise("Write its id, or --all.")
			}
			if all {
				if err := confirm(cmd.Context(), c, yes, "delete all facts of "+args[0], "All that the agent remembers will be gone."); err != nil {
					return err
				}
			}
			request := &controlpb.DeleteFactsRequest{Agent: args[0], All: all}
			if !all {
				if request.Id, err = parseID("fact", args[1]); err != nil {
					return err
				}
			}
			r, err := client.Memory.Delete(cmd.Context(), request)
			return reply(cmd, r, err, nil)
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "all of them")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return withJSON(cmd)
}

// parseID parses the number of a fact or an artifact.
func parseID(kind, text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fault.Newf(fault.InvalidArgs, "find "+kind, text, "not a number")
	}
	return id, nil
}
