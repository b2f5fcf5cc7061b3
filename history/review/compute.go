package review

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/diff"
	"osaurus-sandbox/internal/fault"
)

// maxHunkText bounds the text of all hunks of one review. The others are without.
const maxHunkText = 16 << 20

// unnamedGit is why a change in a .git is left.
const unnamedGit = "it is in a .git, whose hooks and settings run here: name it"

// change is a Change with what Accept and Reject need.
type change struct {
	Change
	pair
	joined bool // the texts of both sides
	broken bool // could not be examined: never accepted or rejected
}

// Compute compares the upper layer with the real folder, and says what Accept leaves of a selection. What is equal
// there, or what the agent has not touched since it was accepted or rejected, is no change. Hunks have texts if
// asked for.
func (r *Review) Compute(ctx context.Context, sel Selection, hunks bool) (*Changes, error) {
	l, err := r.look(ctx, sel.paths())
	if err != nil {
		return nil, err
	}
	if hunks {
		l.hunkText = maxHunkText
	}
	list, err := l.changes()
	for _, c := range list {
		if len(l.paths) == 0 || len(l.covering(c.Path)) > 0 {
			c.Left = l.leaves(c, sel)
			l.rest.Changes = append(l.rest.Changes, c.Change)
		}
	}
	return &l.rest, err
}

// leaves says why a change is not accepted, or "".
func (l *look) leaves(c *change, sel Selection) string {
	_, named := l.paths[c.Path]
	switch way := l.ways[c.Path]; {
	case c.broken, c.Conflict != "" && !sel.AcceptConflicts:
		return c.Conflict
	case c.Git && !way && !l.named(c.Path):
		return unnamedGit
	case c.Runs != "" && !way && !named && !sel.Marked:
		return c.Runs + ": name it, or use --yes-marked"
	case c.After.Kind != 0 && !c.After.Kind.Kept():
		return "it is not a file, folder or link"
	case c.After.Kind == history.Link && !sel.OutsideLinks && leadsOut(c.Path, c.After.Target):
		return "the link leads out of the folder, or into a .git"
	}
	return ""
}

// changes examines what was asked for, and the folders on the way. Those in a .git come last.
func (l *look) changes() ([]*change, error) {
	var list, apart []*change
	gone := map[history.Digest]string{}
	err := l.each(func(p pair) error {
		if p.real.Kind == history.Excluded {
			l.rest.Ignored++
			return nil
		}
		if len(l.paths) > 0 && !l.ways[p.path] && len(l.covering(p.path)) == 0 {
			return nil
		}
		c, err := l.examine(p)
		if err != nil || c == nil {
			return err
		}
		if c.Before.Kind == history.File && c.After.Kind != history.File && c.Before.Size > 0 {
			gone[c.Before.Content] = c.Path
		}
		c.Ignored = l.ignore.ignored(p.path, p.upper.Kind == history.Folder || p.real.Kind == history.Folder)
		if c.Git = inGit(p.path); c.Git {
			apart = append(apart, c)
		} else {
			list = append(list, c)
		}
		return nil
	})
	list = append(list, apart...)
	for _, c := range list {
		if c.After.Kind == history.File && c.Before.Kind != history.File {
			c.RenamedFrom = gone[c.After.Content]
		}
	}
	return list, err
}

// examine compares one path. It returns nil if there is no change.
func (l *look) examine(p pair) (*change, error) {
	c := &change{pair: p}
	c.Path, c.Before, c.After = p.path, p.real, p.upper
	if p.upper.Same(p.real) {
		return nil, nil
	}
	base := p.base
	switch {
	case p.upper.Kind == history.Unreadable, p.real.Kind == history.Unreadable, p.real.Kind == history.TooDeep:
		c.Conflict, c.broken = "it cannot be read, or changed meanwhile", true
	case p.known:
	case p.real.Kind == 0, p.real.Kind == history.Folder, older(p.real, p.began):
		base = p.real // the agent began with it
	default:
		c.Conflict = "it changed in the real folder too, and the version that the agent began with is not known"
	}
	var err error
	if c.Conflict == "" {
		if c.Conflict, err = l.settle(c, base); err != nil {
			return nil, fault.Wrap("compare", p.path, err)
		}
	}
	if c.After.Same(p.real) {
		return nil, nil
	}
	return c, l.describe(c)
}

// settle decides what becomes of a path that is different in the upper layer and the real folder. It
// returns why that is a conflict, or "".
func (l *look) settle(c *change, base history.Entry) (conflict string, err error) {
	upper, real, merged := c.upper, c.real, c.upper
	switch {
	case upper.Same(base): // only somebody on the host has changed it
		c.After = real
		return "", nil
	case real.Same(base):
		return "", nil
	case upper.Kind == 0 || real.Kind == 0:
		return "one side deleted what the other changed", nil
	case upper.Kind != real.Kind || base.Kind != upper.Kind || upper.Kind != history.File && upper.Kind != history.Folder:
		return "both sides changed what it is", nil
	case upper.Mode == base.Mode:
		merged.Mode = real.Mode
	case real.Mode != base.Mode && real.Mode != upper.Mode:
		return "both sides changed its mode", nil
	}
	switch {
	case upper.Kind == history.Folder:
	case upper.Content == base.Content:
		merged.Content, merged.Size = real.Content, real.Size
	case real.Content != base.Content && real.Content != upper.Content:
		c.base = base
		text, plain, clean, err := l.join(c)
		if err != nil || !plain {
			return "both sides changed it, and it cannot be merged as text", err
		}
		if !clean {
			return "both sides changed the same part of it", nil
		}
		merged.Content, merged.Size, c.joined = sha256.Sum256([]byte(text)), int64(len(text)), true
	}
	c.After, c.Merged = merged, !merged.Same(upper)
	return "", nil
}

// join merges the texts of both sides. Plain is false if one is no text.
func (l *look) join(c *change) (text string, plain, clean bool, err error) {
	var texts [3]string
	for i, e := range []history.Entry{c.base, c.real, c.upper} {
		if texts[i], plain, err = l.History.Text(l.ctx, e); err != nil || !plain {
			return "", false, false, err
		}
	}
	text, clean = diff.Merge(texts[0], texts[1], texts[2])
	return text, true, clean, nil
}

// texts returns the real text and the one that Accept writes. Plain is false if one of them is no text.
func (l *look) texts(c *change) (before, after string, plain bool, err error) {
	if before, plain, err = l.History.Text(l.ctx, c.Before); err != nil || !plain {
		return "", "", false, err
	}
	if c.joined {
		after, _, _, err = l.join(c)
	} else {
		after, plain, err = l.History.Text(l.ctx, c.After)
	}
	return before, after, plain, err
}

// content names the content of a file. That of a folder is none of its own.
func content(e history.Entry) history.Digest {
	if e.Kind == history.Folder {
		return history.Digest{}
	}
	return e.Content
}

// describe fills in what follows from the versions.
func (l *look) describe(c *change) error {
	c.Change.Change = history.NewChange(c.Path, c.Before, c.After)
	c.Runs = l.runs(c.Path, c.Before, c.After)
	print := func(e history.Entry) string {
		return fmt.Sprintf("%c %o %d %s %q", max(e.Kind, '-'), e.Mode, e.Size, content(e), e.Target)
	}
	id := sha256.Sum256(fmt.Appendf(nil, "%q %s %s %s", c.Path, print(c.upper), print(c.Before), print(c.After)))
	c.ID = hex.EncodeToString(id[:16])
	before, after, plain, err := l.texts(c)
	if c.Binary = !plain; err != nil || !plain || content(c.Before) == content(c.After) {
		return err
	}
	c.Lines = history.Compare(before, after)
	for i, text := range c.Hunks {
		if len(text) > l.hunkText {
			c.Hunks[i] = ""
		} else {
			l.hunkText -= len(text)
		}
	}
	return nil
}
