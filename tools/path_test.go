package tools

import (
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
)

func TestPaths(t *testing.T) {
	a := Agent{Home: "/workspace/agents/abc"}
	for text, want := range map[string]string{
		"notes.md": "/workspace/agents/abc notes.md", ".": "/workspace/agents/abc .", "~": "/workspace/agents/abc .", "~/x y": "/workspace/agents/abc x y", "a/./b//c/": "/workspace/agents/abc a/b/c",
		"/workspace/agents/abc/f": "/workspace/agents/abc f", "/workspace/shared/s": "/workspace/shared s", "/output": "/output .", "/tmp/t": "/tmp t",
		`it's "$HOME" & (co)`: "/workspace/agents/abc " + `it's "$HOME" & (co)`, "a..b.txt": "/workspace/agents/abc a..b.txt", "..hidden": "/workspace/agents/abc ..hidden", "a/../b": "/workspace/agents/abc b",
		"-rf": "/workspace/agents/abc -rf", "new\nline": "/workspace/agents/abc new\nline",

		"": "!empty", "  ": "!empty", "a\x00b": "!null_byte", "..": "!traversal", "../x": "!traversal", "a/../../b": "!traversal", "~/../x": "!traversal", "/../etc": "!traversal",
		"/workspace/agents/abcX/f": "!outside_allowed_roots", "/workspace/agents": "!outside_allowed_roots", "/etc/passwd": "!outside_allowed_roots", "/workspace/agents/abc/../bob/f": "!outside_allowed_roots",
		"/Users/me/file": "!outside_allowed_roots", "/tmpx": "!outside_allowed_roots", `C:\Users\me`: "!outside_allowed_roots", "d:/x": "!outside_allowed_roots", "c:x": "/workspace/agents/abc c:x", strings.Repeat("x", 5000): "!too_long",
	} {
		p, err := a.path(text)
		if reason, bad := strings.CutPrefix(want, "!"); bad {
			f := failureOf(err)
			if err == nil || f.Kind != fault.InvalidArgs || f.Field != "path" || f.Expected == "" || f.More["reason"] != reason {
				t.Errorf("%.60q: %+v, %v, want %s", text, p, err, reason)
			}
			continue
		}
		if got := p.Root + " " + p.Rel; err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	if _, err := a.path("/Users/me/file"); !strings.Contains(err.Error(), "the person's computer") {
		t.Error(err)
	}
}

// Accepted paths are below one of the roots.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"a/../..", "~/..", "/workspace/shared/../x", "//x", "~~", "/tmp/.."} {
		f.Add(seed)
	}
	a := Agent{Home: "/workspace/agents/abc"}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := a.path(text)
		if err != nil {
			return
		}
		for part := range strings.SplitSeq(p.Rel, "/") {
			if part == ".." || part == "" || strings.HasPrefix(p.Rel, "/") {
				t.Errorf("%q: %+v", text, p)
			}
		}
		for _, root := range a.roots() {
			if p.Root == root {
				return
			}
		}
		t.Errorf("%q is in %q", text, p.Root)
	})
}
