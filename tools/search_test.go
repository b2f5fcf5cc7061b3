package tools

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// findings is a room with prepared matches.
type findings struct {
	engine.Room
	matches []engine.FileMatch
	refused error // by tell
}

func (f *findings) SearchFiles(_ context.Context, _ engine.File, _ engine.FileSearch, tell func(engine.FileMatch) error) (engine.SearchEnd, error) {
	for _, m := range f.matches {
		if err := tell(m); err != nil {
			f.refused = err
			return engine.SearchEnd{}, err
		}
	}
	return engine.SearchEnd{Files: 100}, nil
}

// A search with too many matches returns the first ones and the number of their files. The error that ends it
// is not taken for that of a stopped machine.
func TestLongSearch(t *testing.T) {
	line := strings.Repeat("é", 498)
	in := func(path string, lines int) (matches []engine.FileMatch) {
		for range lines {
			matches = append(matches, engine.FileMatch{Path: path, Line: 1, Text: []byte(line)})
		}
		return matches
	}
	for name, tc := range map[string]struct {
		matches   []engine.FileMatch
		shown     int
		files     uint64
		truncated bool
	}{
		"as much as is shown": {append(in("é1", 60), in("é2", 40)...), 100, 100, false},
		"more in one file":    {in("é1", 110), 100, 1, true},
		"more in the third":   {append(append(in("é1", 60), in("é2", 40)...), in("é3", 40)...), 100, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &findings{matches: tc.matches}
			e := NewRegistry(nil, newSearch(func(Agent) engine.Room { return f })).Call(t.Context(), Call{Agent: Agent{Home: "/home/a"}}, "sandbox_search_files", json.RawMessage(`{"pattern": "é", "max_results": 500}`))
			var answer struct {
				Result struct {
					Count     int    `json:"match_count"`
					Files     uint64 `json:"files_searched"`
					Truncated bool   `json:"truncated"`
				} `json:"result"`
			}
			if err := json.Unmarshal([]byte(e.Text()), &answer); err != nil || !e.OK() {
				t.Fatalf("%.500s", e.Text())
			}
			if r := answer.Result; r.Count != tc.shown || r.Files != tc.files || r.Truncated != tc.truncated {
				t.Errorf("got %+v, want %+v", r, []any{tc.shown, tc.files, tc.truncated})
			}
			kind := fault.KindOf(f.refused)
			if (f.refused != nil) != tc.truncated || tc.truncated && kind != fault.Rejected || errors.Is(f.refused, context.Canceled) {
				t.Errorf("ended by %v, %s", f.refused, kind)
			}
		})
	}
}
