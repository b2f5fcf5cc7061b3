package tools

import (
	"context"
	"strings"
	"unicode/utf8"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// maxFound bounds the matches in characters, and lineBytes each line in bytes.
const (
	maxFound  = 50_000
	lineBytes = 500
)

type searchIn struct {
	Pattern    string `json:"pattern" jsonschema:"of content: a regular expression, as in ripgrep; of files: a glob (*.go, src/**/*.ts), or a part of the name" limit:"minlen=1"`
	Target     string `json:"target,omitempty" jsonschema:"what to look for: lines in files, or files by their names" limit:"enum=content|files,default=content"`
	Path       string `json:"path,omitempty" jsonschema:"the folder, or the file, to search in" limit:"default=."`
	Include    string `json:"include,omitempty" jsonschema:"only files that match this glob: *.py"`
	Context    int    `json:"context_lines,omitempty" jsonschema:"lines to show around each match" limit:"min=0,max=10"`
	IgnoreCase bool   `json:"case_insensitive,omitempty"`
	MaxResults int    `json:"max_results,omitempty" limit:"min=1,max=500,default=100"`
}

type searchOut struct {
	Kind       string  `json:"kind"`
	Pattern    string  `json:"pattern"`
	Target     string  `json:"target"`
	Path       string  `json:"path"`
	Matches    []match `json:"matches"`
	MatchCount int     `json:"match_count"`
	Files      uint64  `json:"files_searched" jsonschema:"if there are more, a lower bound"`
	Truncated  bool    `json:"truncated,omitempty" jsonschema:"there are more: make the pattern or the path narrower"`
}

type match struct {
	Path    string `json:"path"`
	Line    uint64 `json:"line,omitempty"`
	Text    string `json:"text,omitzero"`
	Context bool   `json:"context,omitempty" jsonschema:"a line around a match"`
}

// newSearch makes sandbox_search_files.
func newSearch(rooms Rooms) Tool {
	return inRoom(rooms, Spec{
		Name: "sandbox_search_files", Title: "Search in files", Lean: true, Budget: fileTime + bootTime,
		Hints: Hints{ReadOnly: true, Idempotent: true},
		Description: `Find lines in files by a regular expression (target content), or files by their names (target files). Hidden files, binary files and what .gitignore names are left out; ` +
			`include *.log looks into those too.`,
	}, func(ctx context.Context, c *Call, in searchIn) (searchOut, error) {
		p, err := c.path(in.Path)
		if err != nil {
			return searchOut{}, err
		}
		out := searchOut{Kind: "search", Pattern: in.Pattern, Target: in.Target, Path: p.String(), Matches: []match{}}
		size, last := 0, ""
		var seen uint64 // files so far
		enough := false
		end, err := c.room.SearchFiles(ctx, p.file(), engine.FileSearch{
			Pattern: in.Pattern, Names: in.Target == "files", Include: in.Include, IgnoreCase: in.IgnoreCase,
			Context: in.Context, Limit: in.MaxResults, LineLimit: lineBytes,
		}, func(m engine.FileMatch) error {
			text := strings.ToValidUTF8(string(m.Text), "\uFFFD")
			if m.Clipped {
				text += "…"
			}
			if seen == 0 || m.Path != last {
				seen, last = seen+1, m.Path
			}
			if size += utf8.RuneCountInString(text) + utf8.RuneCountInString(m.Path); size > maxFound {
				enough = true
				return fault.Newf(fault.Rejected, "search", p.String(), "there is enough to show") // ends the search
			}
			if !m.Context {
				out.MatchCount++
			}
			out.Matches = append(out.Matches, match{Path: found(p, m.Path), Line: m.Line, Text: text, Context: m.Context})
			return nil
		})
		if enough {
			end, err = engine.SearchEnd{Truncated: true, Files: seen}, nil
		}
		if err != nil {
			return searchOut{}, c.aboutSearch(ctx, p, in.Target == "files", err)
		}
		if end.Unreadable > 0 {
			c.Warn("%d files or folders could not be read", end.Unreadable)
		}
		if end.Files == 0 && !end.Truncated {
			c.Warn("no file was searched: include or .gitignore excludes all, or the folder has none")
		}
		out.Truncated, out.Files = end.Truncated, end.Files
		return out, nil
	})
}

// found returns the path of a match in the form that other tools accept.
func found(at Path, rel string) string {
	if rel == "" {
		return at.String()
	}
	return at.String() + "/" + strings.ToValidUTF8(rel, "\uFFFD")
}

// aboutSearch names the argument at fault, pattern or path, in an error.
func (c *Call) aboutSearch(ctx context.Context, p Path, names bool, err error) error {
	if f := failureOf(err); f.Kind == fault.InvalidArgs && strings.Contains(f.Message, "the pattern cannot be read") {
		wrong := *f
		wrong.Field = "pattern"
		if wrong.Expected = `a regular expression as ripgrep has them, without look-around; \ before a character that is meant as it is. For files by their names: target files`; names {
			wrong.Expected = "a glob, such as *.go or src/**/*.ts, or a part of the name"
		}
		return &wrong
	}
	return c.missing(ctx, p, err)
}
