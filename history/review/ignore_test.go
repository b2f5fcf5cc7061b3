package review

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// gitIgnored asks git which paths of a folder are ignored.
func gitIgnored(t *testing.T, dir string, paths []string) map[string]bool {
	t.Helper()
	cmd := exec.Command("git", "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "-z", "--stdin")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(strings.Join(paths, "\x00")+"\x00")
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil && (cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1) {
		t.Fatal(err, problem.String())
	}
	ignored := map[string]bool{}
	for path := range strings.SplitSeq(strings.TrimSuffix(out.String(), "\x00"), "\x00") {
		ignored[path] = true
	}
	return ignored
}

// Random .gitignore files, nested and with negations, mean what they mean to git.
func TestIgnoredAsGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git: make setup")
	}
	names := []string{"a", "b", "ab", "a.c", "b c", "#x", "!y", "a b "}
	patterns := []string{
		"a", "b", "a/", "/a", "/a/b", "a/b", "*", "*.c", "a*", "?b", "[ab]", "[!a]", "[^a].c", "[a-c]b", "**", "**/a", "a/**", "a/**/b", "/**/b", "**/a/**", "a/*/b", "*/b",
		`\#x`, "#x", `\!y`, "a  ", `a b\ `, `a\`, "[", "[a", "a/b/", "./a", "a//b", "/", "//", "a/***/b", "b c", "\ta", "ab\r", "***", "[]",
	}
	some, total := 0, 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 4)) //nolint:gosec // repeatable
		dir := t.TempDir()
		if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
		files := map[string]string{}
		var paths []string
		for range 40 {
			var parts []string
			for range 1 + r.IntN(4) {
				parts = append(parts, names[r.IntN(len(names))])
			}
			path := strings.Join(parts, "/")
			if os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755) == nil && os.WriteFile(filepath.Join(dir, path), nil, 0o600) == nil {
				for at := path; at != "."; at = parent(at) {
					paths = append(paths, at)
				}
			}
		}
		slices.Sort(paths)
		paths = slices.Compact(paths)
		for _, at := range []string{".gitignore", "a/.gitignore", "a/b/.gitignore"} {
			var text strings.Builder
			for range r.IntN(4) {
				text.WriteString([]string{"", "", "!"}[r.IntN(3)] + patterns[r.IntN(len(patterns))] + "\n")
			}
			if os.WriteFile(filepath.Join(dir, at), []byte(text.String()), 0o600) == nil {
				files[at] = text.String()
			}
		}
		g := newIgnorer(func(path string) string { return files[path] })
		want := gitIgnored(t, dir, paths)
		for _, path := range paths {
			info, err := os.Stat(filepath.Join(dir, path))
			must(t, err)
			total++
			if want[path] {
				some++
			}
			if got := g.ignored(path, info.IsDir()); got != want[path] {
				t.Errorf("seed %d: %q is ignored: %v, git says %v\n%q", seed, path, got, want[path], files)
			}
		}
	}
	if some < total/10 || some > total*9/10 {
		t.Errorf("%d of %d are ignored: that tests little", some, total)
	}
}

func FuzzIgnore(f *testing.F) {
	f.Add("a\n!b/\n**/c\n[a-", "a/b/c")
	f.Add(`\`, "x")
	f.Fuzz(func(t *testing.T, text, path string) {
		if path = strings.Trim(filepath.Clean("/"+path), "/"); path == "" {
			return
		}
		g := newIgnorer(func(string) string { return text })
		if !g.ignored(parent(path), true) {
			return
		}
		if !g.ignored(path, false) {
			t.Errorf("%q is not ignored, but its folder is", path)
		}
	})
}

// A person who names a path reviews and accepts what is ignored below it. All else of it is one line.
func TestIgnoredIsFolded(t *testing.T) {
	w := newWorld(t)
	w.host(".gitignore", "node_modules/\n*.log\n", 0o644)
	w.host("src/.gitignore", "!keep.log\n", 0o644)
	must(t, w.Mkdir(t.Context(), "node_modules", 0o755))
	w.agent("node_modules/a", "12345", 0o644)
	w.agent("node_modules/b", "123", 0o644)
	w.agent("src/keep.log", "kept\n", 0o644)
	w.agent("src/x.log", "log\n", 0o644)
	out := w.compute()
	if len(out.Changes) != 1 || out.Changes[0].Path != "src/keep.log" || out.Ignored != 3 || out.IgnoredBytes != 12 {
		t.Errorf("%+v", out)
	}
	w.accept()
	if got := w.has(); len(got) != 4 || got["src/keep.log"] == "" {
		t.Errorf("%q", got)
	}
	if report := w.try(Selection{}, "src"); len(report.Done) != 0 || len(report.Left) != 1 {
		t.Errorf("%+v", report)
	}
	if out := w.compute("node_modules"); len(out.Changes) != 3 || !out.Changes[0].Ignored {
		t.Errorf("%+v", out)
	}
	w.accept("node_modules/a")
	if got := w.has()["node_modules/a"]; got != show(File, 0o644, "12345") {
		t.Errorf("%q", got)
	}
	w.accept("node_modules")
	if got := w.has()["node_modules/b"]; got != show(File, 0o644, "123") {
		t.Errorf("%q", got)
	}
	// The agent's own .gitignore counts: it folds, and accepts nothing.
	w.agent(".gitignore", "*\n", 0o644)
	w.agent("hidden", "x", 0o644)
	if report := w.try(Selection{}); len(report.Done) != 0 {
		t.Errorf("%+v", report)
	}
}

// Too many rules ignore nothing, and no more files of the agent are read then, nor after the look is cancelled.
func TestIgnoreLimits(t *testing.T) {
	w := newWorld(t)
	for i := range 20 {
		dir := fmt.Sprintf("d%02d", i)
		w.agentFolder(dir)
		w.agent(dir+"/.gitignore", strings.Repeat("x\n", 600)+"*.log\n", 0o644)
		w.agent(dir+"/a.log", "log\n", 0o644)
	}
	shown := map[string]bool{}
	for _, c := range w.compute().Changes {
		shown[c.Path] = true
	}
	if shown["d00/a.log"] || shown["d07/a.log"] || !shown["d08/a.log"] || !shown["d19/a.log"] {
		t.Errorf("%v", shown)
	}
	g := newIgnorer(func(string) string { return strings.Repeat("x", maxIgnoreText/2) + "\n*\n" })
	if !g.ignored("a/b", false) || !g.ignored("a/b/c", false) || len(g.rules) > 2 {
		t.Errorf("%d files are kept", len(g.rules))
	}
	if g = newIgnorer(func(string) string { return strings.Repeat("#", maxIgnoreText) + "\n*\n" }); g.ignored("a", false) {
		t.Error("a file that is too large was used")
	}

	ctx, cancel := context.WithCancel(t.Context())
	c := &cancelled{upper: upper{w}, cancel: cancel}
	w.Upper = c
	if _, err := w.Compute(ctx, Selection{}, false); !errors.Is(err, context.Canceled) || c.opened != 1 {
		t.Errorf("%v, and %d files were opened", err, c.opened)
	}
}

// cancelled is an upper layer that cancels the look when a file is opened.
type cancelled struct {
	upper
	cancel context.CancelFunc
	opened int
}

func (c *cancelled) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	c.opened++
	c.cancel()
	return c.upper.Open(ctx, name)
}
