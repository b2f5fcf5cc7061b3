package review

import (
	"context"
	"path"
	"slices"
	"strings"

	"osaurus-sandbox/internal/diff"
	"osaurus-sandbox/internal/fault"
)

// chosen is a change, or some hunks of it.
type chosen struct {
	*change
	hunks map[int]bool // by number from 0, or nil for all
}

// choose looks again, and returns the changes that the selection covers. The report has what it cannot
// take. A folder above a pick comes along if it is needed.
func (s *scan) choose(ctx context.Context, sel Selection, needed func(*change) bool) ([]chosen, *Report, error) {
	var names []string
	ways := map[string]bool{}
	for _, p := range sel.Picks {
		names = append(names, p.Path)
		for dir := parent(path.Clean(p.Path)); dir != "." && !ways[dir]; dir = parent(dir) {
			ways[dir] = true
		}
	}
	paths, used := newPathSet(names), map[string]bool{}
	all, _, err := s.changes(ctx, paths, ways)
	if err != nil {
		return nil, nil, err
	}
	report := &Report{Done: []Outcome{}, Left: []Outcome{}}
	var list []chosen
	for _, c := range all {
		covering := paths.covering(c.Path)
		way := ways[c.Path] && needed(c)
		if len(covering) == 0 && len(paths) > 0 && !way || (c.Git || c.Ignored) && !way && !s.named(paths, c.Path) {
			continue
		}
		for _, p := range covering {
			used[p] = true
		}
		one := chosen{change: c}
		if len(covering) > 0 {
			pick := sel.Picks[paths[covering[0]]]
			switch {
			case covering[0] == c.Path && !same(pick, c):
				report.leave(c.Path, errChanged.Error())
				continue
			case covering[0] == c.Path:
				err = one.pickHunks(pick.Hunks)
			case len(pick.Hunks) > 0:
				err = fault.Newf(fault.InvalidArgs, "select hunk", pick.Path, "it has no hunks").Advise("Name a changed text file.")
			}
			if err != nil {
				return nil, nil, err
			}
		}
		list = append(list, one)
	}
	for _, name := range names {
		if !used[path.Clean(name)] {
			report.leave(name, "there is no change")
		}
	}
	return list, report, nil
}

// same reports whether a change is the reviewed one. What somebody on the host changed since
// matters only where hunks are numbered and where it would be overwritten.
func same(pick Pick, c *change) bool {
	agent, _, _ := strings.Cut(pick.ID, ".")
	now, _, _ := strings.Cut(c.ID, ".")
	return pick.ID == "" || agent == now && (pick.ID == c.ID || len(pick.Hunks) == 0 && c.Conflict == "")
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

// inOrder puts first what will be gone or no folder any more, from the bottom up, so that folders are
// empty when they are removed. The list is sorted by path.
func inOrder(list []chosen, gone func(chosen) bool) []chosen {
	var first, rest []chosen
	for _, c := range list {
		if gone(c) {
			first = append(first, c)
		} else {
			rest = append(rest, c)
		}
	}
	slices.Reverse(first)
	return append(first, rest...)
}
