package gitignore

import (
	"strings"
	"testing"
)

func TestGlob(t *testing.T) {
	for glob, want := range map[string]string{
		"*.go":            "a.go .go",
		"a/**":            "a/b a/c a/b/c a/x/y/c",
		"**/c":            "c a/c a/b/c a/x/y/c",
		"a/**/c":          "a/c a/b/c a/x/y/c",
		"**":              "c a.go .go a/b a/c a/b/c a/x/y/c {b}",
		"{a/b,a/x/y}/c":   "a/b/c a/x/y/c",
		"{a/{b,c},.go}":   "a/b a/c .go",
		"[!.]":            "c",
		`\{b}`:            "{b}",
		"[{]b[}]":         "{b}",
		"**/b/**/c":       "a/b/c",
		"a/**/**/?":       "a/b a/c a/b/c a/x/y/c",
		"**/{x,b}/{y/,}c": "a/b/c a/x/y/c",
	} {
		g, err := Compile(glob)
		if err != nil {
			t.Errorf("%s: %v", glob, err)
			continue
		}
		for _, path := range strings.Fields("c a.go .go a/b a/c a/b/c a/x/y/c {b}") {
			if got := g.Match(path); got != strings.Contains(" "+want+" ", " "+path+" ") {
				t.Errorf("%s matches %s: %v", glob, path, got)
			}
		}
	}
	for _, glob := range []string{"[a", "{a", "x[]", "{a,[}", `a\`, strings.Repeat("{a,b}", 20)} {
		if _, err := Compile(glob); err == nil {
			t.Errorf("%s is a glob", glob)
		}
	}
}

func FuzzGlob(f *testing.F) {
	for _, glob := range []string{"{a,{b}}", "**/x/**", "[!a-", "a[\\", "{,}{,}"} {
		f.Add(glob, "a/b")
	}
	f.Fuzz(func(_ *testing.T, glob, path string) {
		Decide(Parse(glob), path, true)
		if g, err := Compile(glob); err == nil {
			g.Match(path)
		}
	})
}
