package checkpoints

import (
	"context"
	"fmt"
	"io"
	"path"

	"osaurus-sandbox/config"
	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/store"
)

// Damage is what Verify has found.
type Damage struct {
	Objects []history.Digest
	Calls   []Hurt
}

// Hurt is a call that cannot be undone as a whole.
type Hurt struct {
	Agent config.AgentID
	Call  int64
	Path  string // the first file that is damaged
}

// Verify reads all checkpoints and returns what is damaged.
func (c *Checkpoints) Verify(ctx context.Context, report progress.Func) (d Damage, err error) {
	if d.Objects, err = c.History.Verify(ctx, report); err != nil || len(d.Objects) == 0 {
		return d, err
	}
	search := damaged{c.History, map[history.Digest]bool{}, map[history.Digest]string{}}
	for _, object := range d.Objects {
		search.objects[object] = true
	}
	calls, err := store.Select(ctx, c.DB, "read history", scan, "SELECT "+columns+" FROM history WHERE before != '' ORDER BY agent, call")
	for _, call := range calls {
		for _, side := range []trees{call.before, call.after} {
			for _, tree := range side {
				if at := search.in(ctx, tree); at != "" {
					d.Calls = append(d.Calls, Hurt{call.Agent, call.Number, at})
				}
			}
		}
	}
	return d, err
}

// damaged finds damaged objects in trees. Found has the path of the first for trees and contents that
// were searched.
type damaged struct {
	history *history.History
	objects map[history.Digest]bool
	found   map[history.Digest]string
}

// in returns the path of the first damaged file in a tree, "." for the tree itself, or "".
func (d damaged) in(ctx context.Context, tree history.Digest) (at string) {
	if at, known := d.found[tree]; known {
		return at
	}
	defer func() { d.found[tree] = at }()
	entries, err := d.history.Tree(ctx, tree)
	if err != nil {
		return "."
	}
	for _, e := range entries {
		switch {
		case e.Kind == history.Folder:
			if at := d.in(ctx, e.Content); at != "" {
				return path.Join(e.Name, at)
			}
		case e.Kind == history.File && d.content(e):
			return e.Name
		}
	}
	return ""
}

// content reports whether a file's content is damaged, by reading it: it may be of several objects.
func (d damaged) content(e history.Entry) bool {
	key := e.Content
	if at, known := d.found[key]; known {
		return at != ""
	}
	d.found[key] = ""
	if !d.objects[key] && e.Size < largeFile {
		return false
	}
	r, err := d.history.Content(e)
	if err == nil {
		_, err = io.Copy(io.Discard, r)
		_ = r.Close()
	}
	if err != nil {
		d.found[key] = fmt.Sprint(err)
	}
	return err != nil
}

// largeFile is the size from which files may be in chunks.
const largeFile = 1 << 20
