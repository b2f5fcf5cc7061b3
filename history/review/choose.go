package review

import (
	"context"
	"path"
	"slices"
	"strings"

	"osaurus-sandbox/internal/diff"
	"osaurus-sandbox/internal/fault"
)

// chosen is a change with what to make of it. Part is false if it is the whole change.
type chosen struct {
	*change
	hunks map[int]bool // by number from 0, or nil for all
}

// choose looks again, and finds what the selection covers. What it cannot take is in the report.
func (s *scan) choose(ctx context.Context, sel Selection) ([]chosen, *Report, error) {
	var paths []string
	for _, p := range sel.Picks {
		paths = append(paths, path.Clean(p.Path))
	}
	look := paths
	for _, p := range paths { // new folders on the way come along
		for dir := parent(p); dir != "."; dir = parent(dir) {
			look = append(look, dir)
		}
	}
	all, _, err := s.changes(ctx, look)
	if err != nil {
		return nil, nil, err
	}
	report := &Report{Done: []Outcome{}, Left: []Outcome{}}
	var list []chosen
	for _, c := range all {
		var pick *Pick
		for i := range sel.Picks {
			if covers(paths[i], c.Path) && (pick == nil || len(paths[i]) >= len(path.Clean(pick.Path))) {
				pick = &sel.Picks[i]
			}
		}
		way := c.After.Kind == Folder && c.Before.Kind == Nothing && slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, c.Path+"/") })
		if pick == nil && len(paths) > 0 && !way || (c.Git || c.Ignored) && !way && !s.named(paths, c.Path) {
			continue
		}
		one := chosen{change: c}
		if pick != nil && pick.Path == c.Path {
			agent, _, _ := strings.Cut(pick.ID, ".")
			now, _, _ := strings.Cut(c.ID, ".")
			if pick.ID != "" && (agent != now || pick.ID != c.ID && (len(pick.Hunks) > 0 || c.Conflict != "")) {
				report.leave(c.Path, errChanged.Error())
				continue
			}
			if err := one.pickHunks(pick.Hunks); err != nil {
				return nil, nil, err
			}
		}
		list = append(list, one)
	}
	for i, p := range paths {
		if !slices.ContainsFunc(list, func(c chosen) bool { return covers(p, c.Path) }) && !slices.ContainsFunc(report.Left, func(o Outcome) bool { return covers(p, o.Path) }) {
			report.leave(sel.Picks[i].Path, "there is no change")
		}
	}
	return list, report, nil
}

func (r *Report) leave(path, reason string) {
	r.Left = append(r.Left, Outcome{Path: path, Reason: reason})
}

func (c *chosen) pickHunks(numbers []int) error {
	for _, n := range numbers {
		if n < 1 || n > len(c.Hunks) {
			return fault.Newf(fault.InvalidArgs, "select hunk", c.Path, "there are %d hunks, no hunk %d", len(c.Hunks), n).Advise("Look at the review again: hunks are numbered from 1.")
		}
	}
	picked := map[int]bool{}
	for _, n := range numbers {
		picked[n-1] = true
	}
	if len(picked) > 0 && (len(picked) < len(c.Hunks) || c.Before.Mode != c.After.Mode && c.Before.Kind == c.After.Kind) {
		c.hunks = picked
	}
	return nil
}

// part returns the real text with the chosen hunks, or without them.
func (c *chosen) part(with bool) []byte {
	return []byte(diff.Select(string(c.real.text), string(c.text), func(i int) bool { return c.hunks[i] == with }))
}

// inOrder sorts so that folders are empty when they go, and there when they are filled.
// Gone tells what will have nothing, or no folder, any more.
func inOrder(list []chosen, gone func(chosen) bool) []chosen {
	slices.SortStableFunc(list, func(a, b chosen) int {
		if x, y := gone(a), gone(b); x != y {
			if x {
				return -1
			}
			return 1
		} else if x {
			return strings.Compare(b.Path, a.Path)
		}
		return strings.Compare(a.Path, b.Path)
	})
	return list
}
