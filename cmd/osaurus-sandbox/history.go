package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

func newHistory() *cobra.Command {
	limit := uint32(20)
	return daemonCommand("history AGENT", func(ctx context.Context, c *call) error {
		colours := paintFor(c.out)
		answers := control.Messages(c.History.List(ctx, &controlpb.ListHistoryRequest{Agent: c.args[0], Limit: limit}))
		return replyRows(c, answers, (*controlpb.ListHistoryResponse).GetCall, "CALL\tWHEN\tFILES\tLINES\tTOOL\tSUMMARY", func(h *controlpb.HistoryCall) []any {
			tool := h.Tool
			if tool == "" {
				tool = "(between calls)"
			}
			summary := safef("%s", h.Summary)
			if h.Note != "" {
				summary += " " + colours.busy("["+h.Note+"]")
			}
			return []any{h.Call, when(h.Began), h.Files, h.Lines, tool, summary}
		})
	},
		withFlag(&limit, "limit, n", "how many calls to list"))
}

func newDiff() *cobra.Command {
	var stat bool
	return daemonCommand("diff AGENT [CALL] [PATH...]", func(ctx context.Context, c *call) error {
		first, last, paths, err := callsAndPaths(c.args[1:])
		if err != nil {
			return err
		}
		answers := control.Messages(c.History.Diff(ctx, &controlpb.DiffHistoryRequest{Agent: c.args[0], First: first, Last: last, Paths: paths, Text: !stat}))
		if c.json {
			return replyEach(c, answers, nil)
		}
		colours := paintFor(c.out)
		return paged(ctx, c, func(w io.Writer) error {
			for answer, err := range answers {
				if err != nil {
					return err
				}
				if err := printChange(w, colours, answer.Change); err != nil {
					return err
				}
			}
			return nil
		})
	},
		withFlag(&stat, "stat", "only count the lines of each file"))
}

// callsAndPaths splits the arguments after AGENT: a call or a range of calls, and paths. A path that looks
// like a call is written ./7.
func callsAndPaths(args []string) (first, last int64, paths []string, err error) {
	if len(args) == 0 {
		return 0, 0, nil, nil
	}
	from, to, isRange := strings.Cut(args[0], "..")
	first, err = strconv.ParseInt(from, 10, 64)
	switch {
	case err != nil || first < 1:
		return 0, 0, args, nil
	case isRange && to == "":
		last = -1
	case isRange:
		if last, err = strconv.ParseInt(to, 10, 64); err != nil || last < first {
			return 0, 0, nil, fault.Newf(fault.InvalidArgs, "read calls", args[0], "not two numbers of calls, the smaller first").Advise("Try 3..7, or 3.. until now.")
		}
	}
	return first, last, args[1:], nil
}

// changeWords are the first words about changes.
var changeWords = map[string]string{"added": "new", "modified": "changed", "removed": "deleted", "mode": "mode"}

// printChange prints how a file has changed, and its hunks.
func printChange(w io.Writer, p paint, c *controlpb.FileChange) error {
	lines := ""
	if c.LinesAdded+c.LinesGone > 0 {
		lines = fmt.Sprintf("+%d -%d  ", c.LinesAdded, c.LinesGone)
	}
	_ = writef(w, "%s %s  %s\n", p.busy(changeWords[c.What]), c.Path, strings.TrimSpace(lines+c.Note))
	if len(c.Hunks) == 0 {
		return nil
	}
	from, to := quoted("a/"+c.Path), quoted("b/"+c.Path)
	switch c.What {
	case "added":
		from = os.DevNull
	case "removed":
		to = os.DevNull
	}
	if err := printDiff(w, p, "--- "+from+"\n+++ "+to+"\n"); err != nil { // for patch and git apply
		return err
	}
	for i := range c.Hunks {
		if err := printHunk(w, p, c, i); err != nil {
			return err
		}
	}
	return writef(w, "\n")
}

// quoted returns a name as git writes it in a diff.
func quoted(name string) string {
	if q := strconv.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}

func printHunk(w io.Writer, p paint, c *controlpb.FileChange, i int) error {
	head, rest, _ := strings.Cut(cmp.Or(c.Hunks[i], "@@ not shown: name the file to see it @@"), "\n")
	return printDiff(w, p, fmt.Sprintf("%s  hunk %d\n%s", head, i+1, rest))
}

// printDiff prints a unified diff. Its lines begin with a character of a diff, so that none can be mistaken for
// this program's.
func printDiff(w io.Writer, colours paint, text string) error {
	for line := range strings.Lines(text) {
		if !strings.ContainsRune(" +-@\\", rune(line[0])) {
			line = " " + line
		}
		shown := lines(strings.TrimSuffix(line, "\n"))
		if colour := map[byte]string{'+': "32", '-': "31", '@': "33"}[line[0]]; colour != "" {
			shown = colours.around(colour, shown)
		}
		if err := writef(w, "%s\n", shown); err != nil {
			return err
		}
	}
	return nil
}

func newUndo() *cobra.Command {
	var all, force bool
	return daemonCommand("undo AGENT [CALL] [PATH...]", func(ctx context.Context, c *call) error {
		first, last, paths, err := callsAndPaths(c.args[1:])
		if err != nil {
			return err
		}
		if last != 0 {
			return fault.Newf(fault.InvalidArgs, "undo calls", c.args[1], "only one call can be undone").Advise("Use --all-since to undo everything since a call.")
		}
		return restoreHome(ctx, c, &controlpb.UndoRequest{Agent: c.args[0], Call: first, Paths: paths, AllSince: all, Force: force})
	},
		withFlag(&all, "all-since", "bring back everything as it was before the call"),
		withFlag(&force, "force", "undo even while calls run, and programs have the files open"))
}

func newRedo() *cobra.Command {
	var force bool
	return daemonCommand("redo AGENT", func(ctx context.Context, c *call) error {
		return restoreHome(ctx, c, &controlpb.UndoRequest{Agent: c.args[0], Redo: true, Force: force})
	},
		withFlag(&force, "force", "redo even while calls run, and programs have the files open"))
}

func restoreHome(ctx context.Context, c *call, r *controlpb.UndoRequest) error {
	answer, err := c.History.Undo(ctx, r)
	return reply(c, answer, err, func(w io.Writer, u *controlpb.UndoResponse) error {
		colours := paintFor(w)
		for _, change := range u.Changes {
			_ = printChange(w, colours, change)
		}
		if more := int(u.Changed) - len(u.Changes); more > 0 {
			_ = writef(w, "… and %s\n", plural(more, "other"))
		}
		for _, left := range u.Left {
			_ = writef(c.err, "left alone: %s\n", left)
		}
		tool := u.Of.Tool
		if tool == "" {
			tool = "between calls"
		}
		return writef(w, "undid call %d (%s): this is call %d\n", u.Of.Call, strings.TrimSpace(tool+" "+u.Of.Summary), u.Call.Call)
	})
}

func newVerify() *cobra.Command {
	return daemonCommand("verify", func(ctx context.Context, c *call) error {
		answer, err := c.History.Verify(ctx, &controlpb.VerifyHistoryRequest{})
		err = reply(c, answer, err, func(w io.Writer, v *controlpb.VerifyHistoryResponse) error {
			if len(v.Objects) == 0 {
				return writef(w, "whole\n")
			}
			for _, call := range v.Calls {
				_ = writef(w, "%s\n", call)
			}
			return nil
		})
		if err == nil && len(answer.Objects) > 0 {
			return fault.Newf(fault.Execution, "verify", "checkpoints", "%s damaged and set aside: %s", plural(len(answer.Objects), "object"), strings.Join(answer.Objects[:min(len(answer.Objects), 3)], ", ")).
				Advise("Check the disk. The next checkpoint of each home stores what is missing again.")
		}
		return err
	})
}
