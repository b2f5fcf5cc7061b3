package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

func newReviewAccept() *cobra.Command {
	d := decision{what: "accept"}
	return daemonCommand("accept AGENT MOUNT [PATH...]", d.run,
		withFlag(&d.yes, "yes", "do not ask for confirmation"),
		withFlag(&d.request.Marked, "yes-marked", "also what is marked"),
		withFlag(&d.request.Conflicts, "conflicts", "take the agent's version where both have changed"),
		withFlag(&d.request.OutsideLinks, "outside-links", "also links that lead out of the folder"),
		withFlag(&d.hunks, "hunks", "ask about each hunk"),
		withFlag(&d.chosen, "hunk", "accept only this hunk, FILE:N; repeat it for more"),
		exclusive("hunks hunk"))
}

func newReviewReject() *cobra.Command {
	d := decision{what: "reject"}
	return daemonCommand("reject AGENT MOUNT [PATH...]", d.run,
		withFlag(&d.yes, "yes", "do not ask for confirmation"))
}

// decision is what a person accepts or rejects.
type decision struct {
	what       string
	yes, hunks bool
	chosen     []string // FILE:N
	request    controlpb.DecideRequest
	in         *bufio.Reader
	answer     string // the last one: see ask
}

func (d *decision) run(ctx context.Context, c *call) error {
	r := &d.request
	r.Agent, r.Name, d.in = c.args[0], c.args[1], bufio.NewReader(c.in)
	chosen, err := chosenHunks(d.chosen)
	if err != nil {
		return err
	}
	paths := slices.AppendSeq(c.args[2:], maps.Keys(chosen))
	seen, err := readReview(control.Messages(c.Mounts.Review(ctx, &controlpb.ReviewRequest{
		Agent: r.Agent, Name: r.Name, Paths: paths, Hunks: d.hunks, Marked: r.Marked, Conflicts: r.Conflicts, OutsideLinks: r.OutsideLinks,
	})))
	if err != nil {
		return err
	}
	for _, change := range seen.changes {
		if err := d.pick(ctx, c, change, chosen); err != nil {
			return err
		}
	}
	if len(r.Picks) == 0 {
		_ = seen.printStat(c.err, paintFor(c.err))
		return fault.Newf(fault.NotFound, d.what, r.Name, "there is nothing to %s", d.what).Advise("See what there is and what is marked: osaurus-sandbox review " + r.Agent + " " + r.Name + " --stat")
	}
	if len(paths) == 0 && !d.hunks && !d.yes {
		_ = seen.printStat(c.err, paintFor(c.err))
		if err := confirm(ctx, c.console, false, fmt.Sprintf("%s %s", d.what, plural(len(r.Picks), "change")), "Name files to "+d.what+" only some."); err != nil {
			return err
		}
	}
	r.Reject = d.what == "reject"
	done, err := c.Mounts.Decide(ctx, r)
	return reply(c, done, err, func(w io.Writer, done *controlpb.DecideResponse) error { return printDecided(w, c.err, d.what, done) })
}

func printDecided(w, e io.Writer, what string, done *controlpb.DecideResponse) error {
	for _, o := range done.Done {
		merged := ""
		if o.Merged {
			merged = ", merged"
		}
		writef(w, "%sed %s%s\n", what, o.Path, merged)
	}
	for _, o := range done.Left {
		writef(e, "left %s: %s\n", o.Path, o.Reason)
	}
	if len(done.Done) == 0 && len(done.Left) > 0 {
		return fault.Newf(fault.Rejected, what, "changes", "all were left").Advise("See them again: osaurus-sandbox review")
	}
	return nil
}

// chosenHunks parses the hunks of a command line, and returns them by file.
func chosenHunks(texts []string) (map[string][]int32, error) {
	chosen := map[string][]int32{}
	for _, text := range texts {
		colon := strings.LastIndexByte(text, ':')
		n, err := strconv.ParseInt(text[colon+1:], 10, 32)
		if colon < 1 || err != nil || n < 1 {
			return nil, fault.Newf(fault.InvalidArgs, "accept hunk", text, "not FILE:N").Advise("See the numbers: osaurus-sandbox review")
		}
		chosen[text[:colon]] = append(chosen[text[:colon]], int32(n))
	}
	return chosen, nil
}

// pick adds a change that a person has seen and chosen to the request.
func (d *decision) pick(ctx context.Context, c *call, change *controlpb.FileChange, chosen map[string][]int32) error {
	hunks, named := chosen[change.Path]
	switch {
	case d.what == "accept" && change.Left != "":
		return writef(c.err, "left %s: %s\n", change.Path, change.Left)
	case len(chosen) > 0 && !named:
		return nil
	case d.hunks:
		var err error
		parts := max(1, len(change.Hunks))
		if hunks, err = d.askParts(ctx, c, change, parts); err != nil || len(hunks) == 0 {
			return err
		}
		if len(hunks) == parts {
			hunks = nil // all of the file
		}
	}
	d.request.Picks = append(d.request.Picks, &controlpb.ReviewPick{Path: change.Path, Id: change.Id, Hunks: hunks})
	return nil
}

// askParts asks about each hunk of a file, as git add -p does, or about a file without hunks as its only part.
func (d *decision) askParts(ctx context.Context, c *call, change *controlpb.FileChange, parts int) (list []int32, err error) {
	if !canAsk(c.console) {
		return nil, fault.Newf(fault.InvalidArgs, "accept hunks", "", "there is no terminal to ask on").Advise("Name them: --hunk FILE:N")
	}
	writef(c.err, "%s %s  %s\n", changeWords[change.What], change.Path, change.Note)
	for i := range parts {
		what := "accept " + change.Path
		if len(change.Hunks) > 0 {
			what = fmt.Sprintf("accept hunk %d of %s", i+1, change.Path)
			if err := printHunk(c.err, paintFor(c.err), change, i); err != nil {
				return nil, err
			}
		}
		if err := d.ask(ctx, c, what); err != nil {
			return nil, err
		}
		if d.answer == "y" || d.answer == "a" {
			list = append(list, int32(i+1))
		}
	}
	return list, nil
}

// ask asks a person, unless the last answer was about all others too.
func (d *decision) ask(ctx context.Context, c *call, what string) error {
	for d.answer != "a" && d.answer != "q" {
		writef(c.err, "%s? [y,n,a,q] ", what)
		text, err := typedLine(ctx, d.in)
		if err != nil {
			return fault.New(fault.UserDenied, "accept hunks", "", err).Advise("Nothing was changed.")
		}
		if d.answer = strings.TrimSpace(text); slices.Contains([]string{"y", "n", "a", "q"}, d.answer) {
			return nil
		}
		writef(c.err, "y: yes; n: no; a: yes to this and all others; q: no to this and all others\n")
	}
	return nil
}

// maxShownName is how many bytes of a file's name the names of its two versions end with. File systems allow 255
// in all.
const maxShownName = 200

func newReviewOpen() *cobra.Command {
	var tool string
	return daemonCommand("open AGENT MOUNT [PATH...]", func(ctx context.Context, c *call) error {
		r, err := readReview(control.Messages(c.Mounts.Review(ctx, &controlpb.ReviewRequest{Agent: c.args[0], Name: c.args[1], Paths: c.args[2:]})))
		if err != nil {
			return err
		}
		dir, err := os.MkdirTemp("", "osaurus-review-*")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		opened := 0
		for _, change := range r.changes {
			if !change.WasFile && !change.IsFile {
				continue
			}
			opened++
			// All names in the folder are this program's, except for the end.
			name := strings.NewReplacer("/", "-", "\n", "-").Replace(path.Base(change.Path))
			name = name[max(0, len(name)-maxShownName):]
			before, after := filepath.Join(dir, fmt.Sprint(opened, "-folder-", name)), filepath.Join(dir, fmt.Sprint(opened, "-agent-", name))
			if err := writeVersion(ctx, c, before, change.Path, false, change.WasFile); err != nil {
				return err
			}
			if err := writeVersion(ctx, c, after, change.Path, true, change.IsFile); err != nil {
				return err
			}
			if err := runTool(ctx, c.console, tool, before, after); err != nil {
				return err
			}
		}
		return reply(c, map[string]int{"opened": opened}, nil, nil)
	}, withFlag(&tool, "tool", "a program that compares two files (default $VISUAL or $EDITOR)"))
}

// writeVersion writes a version of a changed file to a new file, which is empty if there is none.
func writeVersion(ctx context.Context, c *call, file, path string, agents, there bool) error {
	to, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if there {
		from, err := control.ReadChunks(c.Mounts.Read(ctx, &controlpb.ReadVersionRequest{Agent: c.args[0], Name: c.args[1], Path: path, Agents: agents}))
		if err == nil {
			_, err = io.Copy(to, from)
			_ = from.Close()
		}
		if err != nil {
			return errors.Join(err, to.Close())
		}
	}
	return to.Close()
}
