//go:build linux

package search

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/gitignore"
	"osaurus-sandbox/internal/timetest"
)

// plant creates files by name with their contents. A name that ends with a slash is a folder.
func plant(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		full := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(full, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(full), 0o755))
		must(t, os.WriteFile(full, []byte(content), 0o644))
	}
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ours(t testing.TB, at string, q Query) ([]string, Summary, error) {
	t.Helper()
	f, err := os.Open(at)
	must(t, err)
	defer f.Close()
	if q.Limit == 0 {
		q.Limit = 1 << 20
	}
	if q.LineLimit == 0 {
		q.LineLimit = 1 << 20
	}
	var lines []string
	end, err := Run(t.Context(), f, q, func(matches []Match) error {
		for _, m := range matches {
			mark := ":"
			if m.Context {
				mark = "-"
			}
			if q.Names {
				lines = append(lines, m.Path)
			} else {
				lines = append(lines, fmt.Sprintf("%s%s%d%s%s", m.Path, mark, m.Line, mark, m.Text))
			}
		}
		return nil
	})
	return lines, end, err
}

// theirs returns what ripgrep finds.
func theirs(t testing.TB, dir string, args ...string) []string {
	t.Helper()
	if _, err := exec.LookPath("rg"); err != nil {
		t.Skip("there is no ripgrep to compare with: make setup")
	}
	cmd := exec.Command("rg", append([]string{"--no-config", "--color=never", "--sort=path", "--line-number", "--no-heading", "--with-filename"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_GLOBAL=/dev/null"}
	out, err := cmd.Output()
	// 1 means nothing found, 2 that some rules are invalid.
	if code, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || code.ExitCode() > 2) {
		t.Fatalf("rg %q: %v", args, err)
	}
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\n"), "\n") {
		if line != "" && line != "--" {
			lines = append(lines, strings.TrimPrefix(line, "./"))
		}
	}
	return lines
}

// same compares results in any order: ripgrep sorts whole paths, this package by folder.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

func TestAsRipgrepDoes(t *testing.T) {
	dir := plant(t, map[string]string{
		"a.go": "package a\n\nfunc Handler() {}\n\tfunc inner\nlast line without end", "b.txt": "Handler\nHANDLER\r\nnothing\n",
		"sub/c.go": "func Other() {}\n// Handler\n", "sub/deep/er/d.md": "# func\n", ".hidden/e.go": "func hidden\n", ".hid": "func\n",
		"binary": "func\x00func\n", "late": strings.Repeat("x\n", 100) + "func here\n", "empty": "", "spaces in name.txt": "func\n",
		"ö/ü.txt": "grüße func\n", "dash-file": "-e func\n--pre=x\n", "long": strings.Repeat("y", 300<<10) + "func" + strings.Repeat("z", 10) + "\nfunc\n",
		".ignore": "ignored.txt\n/only-top\n*.log\n!keep.log\n", "ignored.txt": "func\n", "x.log": "func\n", "keep.log": "func\n", "only-top": "func\n", "sub/only-top": "func\n",
		".gitignore": "nogit.txt\n", "nogit.txt": "func, since this is no repository\n",
		"repo/.git/HEAD": "ref\n", "repo/.git/info/exclude": "excluded\n", "repo/excluded": "func\n",
		"repo/.gitignore":  "# comment\nbuild/\n*.o\n!important.o\n/rooted\ndoc/**/*.tmp\ntrailing   \n\\#sharp\nfoo[0-9].txt\na/b\n",
		"repo/build/out.c": "func\n", "repo/x/build": "func a file\n", "repo/y.o": "func\n", "repo/important.o": "func\n", "repo/rooted": "func\n", "repo/x/rooted": "func\n",
		"repo/doc/a.tmp": "func\n", "repo/doc/x/y/b.tmp": "func\n", "repo/trailing": "func\n", "repo/#sharp": "func\n", "repo/foo1.txt": "func\n", "repo/foox.txt": "func\n",
		"repo/a/b": "func\n", "repo/x/a/b": "func\n", "repo/sub/.gitignore": "!y.o\nlocal\n", "repo/sub/y.o": "func\n", "repo/sub/local": "func\n", "repo/local": "func\n",
	})
	for _, tc := range []struct {
		q    Query
		args []string
	}{
		{Query{Pattern: "func"}, nil}, {Query{Pattern: "handler", IgnoreCase: true}, []string{"-i"}}, {Query{Pattern: `^func \w+\(`}, nil}, {Query{Pattern: `e$`}, nil},
		{Query{Pattern: `--pre=x`}, nil}, {Query{Pattern: `-e`}, nil}, {Query{Pattern: `[A-Z]{3,}`}, nil}, {Query{Pattern: `Han|inn`}, nil}, {Query{Pattern: `gr.*e`}, nil},
		{Query{Pattern: "func", Include: "*.go"}, []string{"-g", "*.go"}}, {Query{Pattern: "func", Include: "!*.go"}, []string{"-g", "!*.go"}},
		{Query{Pattern: "func", Include: "*.{md,txt}"}, []string{"-g", "*.{md,txt}"}}, {Query{Pattern: "func", Include: "sub/**"}, []string{"-g", "sub/**"}},
		{Query{Pattern: "Handler", Context: 1}, []string{"-C", "1"}}, {Query{Pattern: "func", Context: 2}, []string{"-C", "2"}}, {Query{Pattern: "nowhere to be found"}, nil},
	} {
		got, _, err := ours(t, dir, tc.q)
		must(t, err)
		same(t, tc.q.Pattern, got, theirs(t, dir, append(tc.args, "-e", tc.q.Pattern)...))
	}
}

func TestNames(t *testing.T) {
	dir := plant(t, map[string]string{"README.md": "", "src/main.go": "", "src/Main_test.go": "", "src/x/y.go": "", ".git/config": "", "node/z.go": "", ".gitignore": "node\n"})
	for _, tc := range []struct {
		q    Query
		want string
	}{
		{Query{Pattern: "main"}, "src/Main_test.go src/main.go"}, {Query{Pattern: "*.go"}, "src/Main_test.go src/main.go src/x/y.go"}, {Query{Pattern: "src/*.go"}, "src/Main_test.go src/main.go"},
		{Query{Pattern: "**/y.go"}, "src/x/y.go"}, {Query{Pattern: "src/x"}, "src/x/y.go"}, {Query{Pattern: "readme"}, "README.md"}, {Query{Pattern: "*.rs"}, ""},
	} {
		q := tc.q
		q.Names = true
		got, _, err := ours(t, dir, q)
		if err != nil || strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %q, %v, want %s", tc.q.Pattern, got, err, tc.want)
		}
	}
}

func TestLimits(t *testing.T) {
	files := map[string]string{}
	for i := range 50 {
		files[fmt.Sprintf("d%02d/f", i)] = strings.Repeat("x\nhit\ny\n", 20)
	}
	dir := plant(t, files)
	for limit := range 70 {
		got, end, err := ours(t, dir, Query{Pattern: "hit", Limit: limit + 1, Context: 1})
		hits := len(slices.DeleteFunc(slices.Clone(got), func(line string) bool { return strings.HasSuffix(line, "-x") || strings.HasSuffix(line, "-y") }))
		if err != nil || !end.Truncated || hits != limit+1 || !strings.HasPrefix(got[len(got)-1], fmt.Sprintf("d%02d/", limit/20)) {
			t.Fatalf("limit %d: %d hits, truncated %v, %v, last %q", limit+1, hits, end.Truncated, err, got[len(got)-1])
		}
	}
	if got, end, _ := ours(t, dir, Query{Pattern: "hit", Limit: 1000}); end.Truncated || len(got) != 1000 {
		t.Errorf("just enough: %d, truncated %v", len(got), end.Truncated)
	}
	got, _, err := ours(t, plant(t, map[string]string{"f": strings.Repeat("é", 5000) + "hit\n"}), Query{Pattern: "hit", LineLimit: 100})
	if err != nil || len(got) != 1 || len(got[0]) != len("f:1:")+100 {
		t.Errorf("a long line: %d bytes, %v", len(got[0]), err)
	}
	// Lines longer than the buffer.
	got, _, err = ours(t, plant(t, map[string]string{"f": strings.Repeat("q", 3*maxLine) + "hit\nhit\n"}), Query{Pattern: "hit", LineLimit: 10})
	if err != nil || len(got) != 2 {
		t.Errorf("an endless line: %q, %v", got, err)
	}
}

func TestBadPatterns(t *testing.T) {
	dir := t.TempDir()
	for pattern, says := range map[string]string{"a(b": "missing closing )", "x[z-a]": "z-a", "ab**": "**", "(?<n": "(?<n", "a{2000}": "{2000}"} {
		_, _, err := ours(t, dir, Query{Pattern: pattern})
		if !errors.Is(err, ErrPattern) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	for _, glob := range []string{"[a", "{a", "x[]"} {
		if _, _, err := ours(t, dir, Query{Pattern: "*", Names: true, Include: glob}); !errors.Is(err, ErrPattern) {
			t.Errorf("%s: %v", glob, err)
		}
	}
}

func TestEnds(t *testing.T) {
	timetest.NoLeaks(t)
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprint("f", i)] = "hit\n"
	}
	f, err := os.Open(plant(t, files))
	must(t, err)
	defer f.Close()
	stop := errors.New("stop")
	if _, err := Run(t.Context(), f, Query{Pattern: "hit", Limit: 1000, LineLimit: 10}, func([]Match) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v, want %v", err, stop)
	}
}

// TestPipeForIgnoreFile searches a folder whose ignore file is a pipe with a writer that writes nothing.
func TestPipeForIgnoreFile(t *testing.T) {
	dir := plant(t, map[string]string{"f": "hit\n", ".git/": ""})
	pipe := filepath.Join(dir, ".gitignore")
	must(t, unix.Mkfifo(pipe, 0o600))
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0)
	must(t, err)
	late := time.AfterFunc(10*time.Second, func() { _ = writer.Close() })
	lines, _, err := ours(t, dir, Query{Pattern: "hit"})
	if err != nil || len(lines) != 1 {
		t.Errorf("%q %v", lines, err)
	}
	if !late.Stop() {
		t.Error("the search waited for the pipe")
	}
	_ = writer.Close()
}

// FuzzRules checks that no glob and no rules panic.
func FuzzRules(f *testing.F) {
	for _, seed := range []string{"*.o\n!a.o", "[]a]\\", "{a,{b}}", "**/x/**", "/", "!\n\\!x", "[!a-", "a[\\"} {
		f.Add(seed, "dir/a.o")
	}
	f.Fuzz(func(t *testing.T, rulesText, name string) {
		r := &rules{own: gitignore.Parse(rulesText), git: gitignore.Parse(rulesText), repo: true}
		r.leavesOut("some/dir/"+name+"x", name+"x", true)
		if m, err := nameGlob(rulesText, true); err == nil {
			m("some/dir/"+name, name)
		}
	})
}

// FuzzLines compares with matching line by line.
func FuzzLines(f *testing.F) {
	f.Add("a.c", []byte("abc\nxabxc\n\nac"))
	f.Add("^$", []byte("\n\nx\n"))
	f.Add("x+", []byte("x\r\nyxx"))
	f.Fuzz(func(t *testing.T, pattern string, data []byte) {
		m, err := compile(pattern, false)
		if err != nil || strings.ContainsAny(pattern, "\n") {
			return
		}
		var got, want []string
		for at := 0; ; {
			start, end, ok := m.next(data, at)
			if !ok {
				break
			}
			got, at = append(got, string(data[start:end])), end+1
		}
		for _, line := range bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
			if m.line.Match(line) && len(data) > 0 {
				want = append(want, string(line))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q in %q: %q, want %q", pattern, data, got, want)
		}
	})
}
