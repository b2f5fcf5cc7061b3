package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
)

func newReview() *cobra.Command {
	var stat bool
	cmd := daemonCommand("review AGENT MOUNT [PATH...]", func(ctx context.Context, c *call) error {
		answers := control.Messages(c.Mounts.Review(ctx, &controlpb.ReviewRequest{Agent: c.args[0], Name: c.args[1], Paths: c.args[2:], Hunks: !stat}))
		if c.json {
			return replyEach(c, answers, nil)
		}
		r, err := readReview(answers)
		if err != nil {
			return err
		}
		p := paintFor(c.out)
		return paged(ctx, c, func(w io.Writer) error {
			if !stat {
				for _, change := range r.changes {
					if err := printChange(w, p, change); err != nil {
						return err
					}
				}
			}
			return r.printStat(w, p)
		})
	}, withFlag(&stat, "stat", "print only which files, and how many lines"))
	cmd.AddCommand(newReviewAccept(), newReviewReject(), newReviewOpen())
	return cmd
}

// reviewed is what an agent changed.
type reviewed struct {
	changes []*controlpb.FileChange
	rest    *controlpb.ReviewedRest
}

func readReview(answers func(func(*controlpb.ReviewResponse, error) bool)) (r reviewed, err error) {
	for answer, err := range answers {
		if err != nil {
			return r, err
		}
		if answer.Change != nil {
			r.changes = append(r.changes, answer.Change)
		}
		if answer.Rest != nil {
			r.rest = answer.Rest
		}
	}
	return r, nil
}

// printStat prints a line for each change, and what is not shown.
func (r reviewed) printStat(w io.Writer, p paint) error {
	if len(r.changes) == 0 {
		writef(w, "Nothing was changed.\n")
	}
	t := newTable(w)
	conflicts := false
	for _, c := range r.changes {
		what := p.good(changeWords[c.What])
		if c.Left != "" {
			what = p.bad(changeWords[c.What])
		}
		conflicts = conflicts || c.Conflict != ""
		t.row(what, c.Path, fmt.Sprintf("+%d -%d", c.LinesAdded, c.LinesGone), c.Note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if conflicts {
		writef(w, "You and the agent both changed the files marked CONFLICT. Compare the versions with review open. Then take the agent's with review accept --conflicts, or drop them with review reject.\n")
	}
	if n := r.rest.GetIgnored(); n > 0 {
		return writef(w, "Not shown: %s (%.1f MB) ignored by .gitignore.\n", plural(int(n), "file"), megabytes(r.rest.IgnoredBytes))
	}
	return nil
}
