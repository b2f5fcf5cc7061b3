package review

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/history"
)

// Nothing is written through a link, wherever one is put while Accept runs.
func TestLinksAreNotFollowed(t *testing.T) {
	for point := 1; ; point++ {
		w := newWorld(t)
		outside := t.TempDir()
		must(t, os.WriteFile(filepath.Join(outside, "a"), []byte("outside\n"), 0o600))
		w.host("other/a", "other\n", 0o644)
		w.host("d/a", "old\n", 0o644)
		w.host("d/e/a", "old\n", 0o644)
		w.host("k", "old\n", 0o644)
		w.agent("d/a", "new\n", 0o644)
		w.agent("d/e/a", "new\n", 0o644)
		w.agentRemove("k")
		w.agentFolder("k")
		steps := 0
		w.reached = func(string) {
			if steps++; steps != point {
				return
			}
			must(t, os.Rename(filepath.Join(w.dir, "d/e"), filepath.Join(w.dir, "d/real")))
			must(t, os.Symlink("../other", filepath.Join(w.dir, "d/e")))
			must(t, os.Rename(filepath.Join(w.dir, "d/a"), filepath.Join(w.dir, "d/b")))
			must(t, os.Symlink(filepath.Join(outside, "a"), filepath.Join(w.dir, "d/a")))
		}
		report := w.try(Selection{})
		if steps < point {
			if point < 4 {
				t.Errorf("there are only %d steps", steps)
			}
			return
		}
		if len(report.Left) == 0 && point == 1 {
			t.Errorf("%d: %+v", point, report)
		}
		for _, at := range []string{filepath.Join(outside, "a"), filepath.Join(w.dir, "other/a")} {
			if data, err := os.ReadFile(at); err != nil || string(data) == "new\n" {
				t.Errorf("%d: %s is %q, %v", point, at, data, err)
			}
		}
		temps, err := filepath.Glob(filepath.Join(w.dir, "*/.osaurus*"))
		must(t, err)
		if len(temps) > 0 {
			t.Errorf("%d: %q are left", point, temps)
		}
	}
}

// A guest that lies about what it listed, or what a file holds, is refused.
func TestHostileUpper(t *testing.T) {
	for name, list := range map[string][]Listed{
		"absolute": {{Path: "/etc/passwd", Entry: history.Entry{Kind: File}}}, "climbs": {{Path: "a/../../b", Entry: history.Entry{Kind: File}}}, "dot": {{Path: ".", Entry: history.Entry{Kind: Folder}}}, "empty": {{Path: "", Entry: history.Entry{Kind: Folder}}},
		"slash": {{Path: "a/", Entry: history.Entry{Kind: Folder}}}, "zero": {{Path: "a\x00b", Entry: history.Entry{Kind: File}}}, "twice": {{Path: "a", Entry: history.Entry{Kind: File}}, {Path: "a", Entry: history.Entry{Kind: Whiteout}}},
		"deep": {{Path: strings.Repeat("x/", 300) + "x", Entry: history.Entry{Kind: File}}}, "negative": {{Path: "a", Entry: history.Entry{Kind: File, Size: -1}}}, "huge": {{Path: "a", Entry: history.Entry{Kind: File, Size: 1 << 60}}},
		"no target": {{Path: "a", Entry: history.Entry{Kind: Symlink}}}, "target": {{Path: "a", Entry: history.Entry{Kind: File, Target: "b"}}}, "unknown": {{Path: "a", Entry: history.Entry{Kind: '?'}}}, "nothing": {{Path: "a", Entry: history.Entry{Kind: Nothing}}},
	} {
		w := newWorld(t)
		w.Upper = fixed{list, nil}
		if out, err := w.Compute(t.Context(), Selection{}, false); err == nil {
			t.Errorf("%s: %+v", name, out)
		}
	}
	for _, list := range [][]Listed{
		{{Path: "a/b", Entry: entry(File, 0, "")}, {Path: "a", Entry: entry(File, 0, "")}}, {{Path: "a", Entry: entry(Symlink, 0, "x")}, {Path: "a/x/y", Entry: entry(File, 0, "")}},
		{{Path: "a", Entry: entry(Whiteout, 0, "")}, {Path: "a/b", Entry: entry(File, 0, "")}}, {{Path: "a/b", Entry: entry(File, 0, "")}},
	} {
		w := newWorld(t)
		w.host("a/b", "here\n", 0o644)
		w.host("x/y", "here\n", 0o644)
		w.Upper = fixed{list, strings.NewReader("")}
		for _, c := range w.compute().Changes {
			if c.Path != "a" && c.After.Kind != Nothing {
				t.Errorf("what is in no folder is a change: %+v", c)
			}
		}
	}
	w := newWorld(t)
	w.Upper = fixed{[]Listed{{Path: "a", Entry: history.Entry{Kind: File, Size: 3}}}, strings.NewReader("four")}
	if c := w.compute().Changes; len(c) != 1 || c[0].Conflict == "" {
		t.Errorf("a file longer than listed is taken: %+v", c)
	}
	if report := w.try(Selection{AcceptConflicts: true}); len(report.Left) != 1 || len(w.has()) != 0 {
		t.Errorf("a file longer than listed is taken: %+v", report)
	}
	w.Upper = fixed{make([]Listed, 1), nil}
	endless := func(yield func(Listed, error) bool) {
		for i := 0; yield(Listed{Path: fmt.Sprint(i), Entry: history.Entry{Kind: File}}, nil); i++ {
		}
	}
	w.Upper = stream{endless}
	if _, err := w.Compute(t.Context(), Selection{}, false); err == nil {
		t.Error("an endless list is taken")
	}
}

type fixed struct {
	list []Listed
	data io.Reader
}

func (f fixed) List(context.Context) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		for _, e := range f.list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (f fixed) Open(context.Context, string) (io.ReadCloser, error) { return io.NopCloser(f.data), nil }

type stream struct{ list iter.Seq2[Listed, error] }

func (s stream) List(context.Context) iter.Seq2[Listed, error]       { return s.list }
func (s stream) Open(context.Context, string) (io.ReadCloser, error) { return nil, fs.ErrNotExist }

// FuzzListing checks that what passes stays inside of the folder.
func FuzzListing(f *testing.F) {
	f.Add("a/b\na\x00../b", uint8(1))
	f.Add("/\n..\n.\n", uint8(4))
	f.Fuzz(func(t *testing.T, text string, kind uint8) {
		l := &look{listed: map[string]Listed{}}
		for path := range strings.SplitSeq(text, "\n") {
			k := []Kind{File, Folder, Symlink, Other, Whiteout, Opaque, 'x', Nothing}[kind%8]
			if err := l.add(Listed{Path: path, Entry: history.Entry{Kind: k, Target: map[bool]string{true: "t"}[k == Symlink]}}); err == nil && !filepath.IsLocal(path) {
				t.Errorf("%q passes", path)
			}
			kind /= 2
		}
	})
}

// What the agent changes after the review is not accepted.
func TestSwappedAfterReview(t *testing.T) {
	w := newWorld(t)
	w.host("a", numbered(40), 0o644)
	w.agent("a", strings.Replace(numbered(40), "line 3\n", "good\n", 1), 0o644)
	w.agent("b", "good\n", 0o644)
	out := w.compute()
	w.agent("a", strings.Replace(numbered(40), "line 3\n", "evil\n", 1), 0o644)
	w.agent("b", "evil\n", 0o644)
	want := w.has()
	report := w.try2(Pick{Path: "a", ID: out.Changes[0].ID, Hunks: []int{1}}, Pick{Path: "b", ID: out.Changes[1].ID})
	if len(report.Done) != 0 || len(report.Left) != 2 {
		t.Errorf("%+v", report)
	}
	equalMaps(t, "real", w.has(), want)
	// What the agent has put into a folder was not reviewed with the folder.
	w.agentFolder("d")
	w.agent("d/seen", "good\n", 0o644)
	out = w.compute()
	var picks []Pick
	for _, c := range out.Changes {
		if strings.HasPrefix(c.Path, "d") {
			picks = append(picks, Pick{Path: c.Path, ID: c.ID})
		}
	}
	w.agent("d/later", "evil\n", 0o644)
	if w.try2(picks...); w.has()["d/seen"] == "" || w.has()["d/later"] != "" {
		t.Errorf("%v", w.has())
	}
	// Between its look and the write, too.
	w.reached = func(string) {
		w.entries["b"].data = []byte("more evil\n")
		w.entries["b"].Mode = 0o777
	}
	out = w.compute()
	if report = w.try2(Pick{Path: "b", ID: out.Changes[1].ID}); len(report.Done) != 1 || w.has()["b"] != show(File, 0o644, "evil\n") {
		t.Errorf("%+v %q", report, w.has()["b"])
	}
}

func (w *world) try2(picks ...Pick) *Report {
	w.t.Helper()
	report, err := w.Accept(w.t.Context(), Selection{Picks: picks})
	must(w.t, err)
	return report
}

// A file that is too long for a text and changes while it is accepted is accepted as it was reviewed.
func TestLongFileChangesMeanwhile(t *testing.T) {
	w := newWorld(t)
	long := history.MaxText + 1
	w.agent("a", strings.Repeat("x", long), 0o644)
	w.reached = func(string) { w.entries["a"].data = []byte(strings.Repeat("y", long)) }
	if report := w.try(Selection{}); len(report.Done) != 1 || w.has()["a"] != show(File, 0o644, strings.Repeat("x", long)) {
		t.Errorf("%+v", report.Done)
	}
	w.reached = nil
	w.accept()
	equalMaps(t, "real", w.has(), w.seen())
}

func TestOutsideLinks(t *testing.T) {
	for target, out := range map[string]bool{
		"a": false, "../a": false, "../../a": true, "/a": true, "..": false, "../..": true, "b/../a": true, ".hidden": false, "./a": false, "b/c": false, "..a": false, "../.git/hooks": true,
		".../../x": true, "../.../..": true, "./../a": false, "b/./../../a": true,
	} {
		if got := leadsOut("d/link", target); got != out {
			t.Errorf("d/link -> %s leads out: %v", target, got)
		}
	}
	w := newWorld(t)
	must(t, w.Symlink(t.Context(), "/etc", "out"))
	must(t, w.Symlink(t.Context(), "x", "in"))
	if report := w.try(Selection{}); len(report.Left) != 1 || report.Left[0].Path != "out" {
		t.Errorf("%+v", report)
	}
	if report := w.try(Selection{OutsideLinks: true}); len(report.Left) != 0 {
		t.Errorf("%+v", report)
	}
	equalMaps(t, "real", w.has(), w.seen())
}

// What is in a .git is shown apart, and accepted only by name.
func TestGitIsApart(t *testing.T) {
	w := newWorld(t)
	w.host("sub/.git/config", "[core]\n", 0o644)
	w.agent("sub/.git/config", "[core]\n\tfsmonitor = evil\n", 0o644)
	must(t, w.Mkdir(t.Context(), ".GIT", 0o755))
	w.agent(".GIT/x", "x", 0o644)
	w.agent(".gi\u200ct", "gitdir: /tmp\n", 0o644)
	w.agent("sub/zzz", "z", 0o644)
	out := w.compute()
	if len(out.Changes) != 5 || out.Changes[0].Path != "sub/zzz" || !out.Changes[1].Git || !out.Changes[4].Git {
		t.Errorf("%+v", out.Changes)
	}
	w.try(Selection{}, "sub")
	if report := w.try(Selection{}); len(report.Left) != 4 || !strings.Contains(report.Left[0].Reason, "name it") {
		t.Errorf("%+v", report)
	}
	w.try(Selection{}, ".")
	if got := w.has(); len(got) != 4 || got["sub/.git/config"] != show(File, 0o644, "[core]\n") {
		t.Errorf("%q", got)
	}
	w.accept("sub/.git")
	if got := w.has()["sub/.git/config"]; !strings.Contains(got, "evil") {
		t.Errorf("%q", got)
	}
	if report := w.reject(); len(report.Left) != 3 || !strings.Contains(report.Left[0].Reason, "name it") {
		t.Errorf("%+v", report)
	}
}

func TestMarks(t *testing.T) {
	w := newWorld(t)
	w.host("was", "x", 0o755)
	for _, name := range []string{".envrc", "a/.vscode/tasks.json", "package.json", "x/GNUmakefile", "Makefile", "build.rs", ".github/workflows/x.yml", ".husky/pre-commit", "Dockerfile", "conftest.py", "app.gradle", "docs/Head", "Gulpfile.js", "nix/flake.nix", ".gdbinit", "head/plain", "plain", "src/main.go", "program", "was"} {
		if dir := parent(name); dir != "." {
			for _, at := range []string{parent(dir), dir} {
				if w.kind(at) == Nothing {
					w.agentFolder(at)
				}
			}
		}
		w.agent(name, "y", map[bool]os.FileMode{true: 0o755, false: 0o644}[name == "program" || name == "was"])
	}
	for _, c := range w.compute().Changes {
		plain := c.Path == "docs" || c.Path == "nix" || c.Path == "head" || c.Path == "head/plain" || c.Path == "plain" || c.Path == "src/main.go" || c.Path == "was" || c.Path == "a" || c.Path == "src" || c.Path == "x"
		if (c.Runs == "") != plain {
			t.Errorf("%s: %q", c.Path, c.Runs)
		}
	}
}

// Both sides changed the same lines: the person decides.
func TestConflicts(t *testing.T) {
	w := newWorld(t)
	w.host("a", "base\n", 0o644)
	w.agent("a", "agent\n", 0o644)
	w.host("a", "host\n", 0o644)
	report := w.try(Selection{}, "a")
	if len(report.Left) != 1 || !strings.Contains(report.Left[0].Reason, "both") || w.has()["a"] != show(File, 0o644, "host\n") {
		t.Errorf("%+v", report)
	}
	if c := w.compute().Changes[0]; c.Conflict == "" || len(c.Hunks) != 1 {
		t.Errorf("%+v", c)
	}
	old := w.compute().Changes[0].ID
	w.host("a", "host again\n", 0o644)
	sel := Selection{AcceptConflicts: true, Picks: []Pick{{Path: "a", ID: old}}}
	if report := w.try(sel); len(report.Left) != 1 {
		t.Errorf("a version that nobody has seen is overwritten: %+v", report)
	}
	sel.Picks[0].ID = ""
	if report := w.try(sel); len(report.Left) != 0 || w.has()["a"] != show(File, 0o644, "agent\n") {
		t.Errorf("%+v", report)
	}
	if out := w.compute(); len(out.Changes) != 0 {
		t.Errorf("%+v", out)
	}
	// Without a base, a real file that is not clearly older is a conflict.
	w.host("b", "b\n", 0o644)
	must(t, w.WriteFile(t.Context(), "b", 0o644, strings.NewReader("agent\n")))
	w.host("b", "host\n", 0o644)
	w.record()
	if report := w.try(Selection{}, "b"); len(report.Left) != 1 || !strings.Contains(report.Left[0].Reason, "not known") {
		t.Errorf("%+v", report)
	}
}

func TestBegan(t *testing.T) {
	now := time.Now()
	l := &look{Review: &Review{Looked: now}}
	for _, c := range []struct {
		name    string
		born    time.Time
		touched bool
		want    time.Time
	}{
		{"touched before the last look", now.Add(time.Second), true, now.Add(time.Second - clockMargin)},
		{"touched since", now.Add(time.Second), false, now.Add(-clockTick)},
		{"by a guest whose clock is late", now.Add(-time.Second), false, now.Add(-clockTick)},
		{"much later", now.Add(time.Hour), false, now.Add(time.Hour - clockMargin)},
		{"ignored at the last look", now.Add(-time.Hour), false, now.Add(-time.Hour - clockMargin)},
		{"never", time.Time{}, false, time.Time{}},
	} {
		if got := l.began(Listed{Born: c.born}, c.touched); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if e := (history.Entry{Mtime: 5, Ctime: 7}); older(e, time.Unix(0, 7)) || !older(e, time.Unix(0, 8)) || older(e, time.Time{}) {
		t.Error("the later of the two times counts")
	}
}

// A person changes files, and a call of the agent changes them too, at once.
func TestChangedJustBefore(t *testing.T) {
	w := newWorld(t)
	w.bornNow = true
	w.host("early", "1\n", 0o644)
	w.host("removed/again", "1\n", 0o644)
	w.agent("early", "agent\n", 0o644)
	w.agentRemove("removed")
	w.record()
	for _, name := range []string{"early", "late", "removed/again"} {
		w.host(name, "person\n", 0o644)
	}
	time.Sleep(2 * clockTick)
	w.record() // before the call
	w.agent("early", "agent again\n", 0o644)
	w.agent("late", "agent\n", 0o644)
	w.agentFolder("removed")
	w.agent("removed/again", "agent\n", 0o644)
	w.record()
	for _, c := range w.compute().Changes {
		if conflict := c.Conflict != ""; conflict != (c.Path != "late") {
			t.Errorf("%s: %q", c.Path, c.Conflict)
		}
	}
	w.host("late", "person again\n", 0o644)
	w.record()
	if c := w.compute("late").Changes; len(c) != 1 || c[0].Conflict == "" {
		t.Errorf("%+v", c)
	}
}

func TestRenames(t *testing.T) {
	w := newWorld(t)
	w.host("from", numbered(5), 0o644)
	w.agentRemove("from")
	w.agent("to", numbered(5), 0o644)
	if c := w.compute("to").Changes; len(c) != 1 || c[0].RenamedFrom != "" {
		t.Errorf("%+v", c)
	}
	if c := w.compute().Changes; len(c) != 2 || c[1].RenamedFrom != "from" {
		t.Errorf("%+v", c)
	}
}

// A new folder comes along with a file in it that is named.
func TestFoldersOnTheWay(t *testing.T) {
	w := newWorld(t)
	w.agentFolder("a")
	w.agentFolder("a/b")
	w.agent("a/b/c", "c", 0o644)
	w.agent("a/d", "d", 0o644)
	w.accept("a/b/c")
	if got := w.has(); len(got) != 3 || got["a/b/c"] == "" {
		t.Errorf("%q", got)
	}
	w.reject(Pick{Path: "a/d"})
	if w.kind("a/d") != Nothing || w.kind("a/b/c") != File {
		t.Errorf("%q", w.seen())
	}
	w.agentRemove("a")
	if report := w.reject(Pick{Path: "a/b/c"}); len(report.Left) != 0 || len(report.Done) != 3 {
		t.Errorf("%+v", report)
	}
	equalMaps(t, "room", w.seen(), w.has())
	w.agent("a/d", "d", 0o644)
	if report := w.try(Selection{}, "nothing"); len(report.Left) != 1 {
		t.Errorf("%+v", report)
	}
	if _, err := w.Accept(t.Context(), Selection{Picks: []Pick{{Path: "a/d", Hunks: []int{2}}}}); err == nil {
		t.Error("a hunk that is not there is accepted")
	}
	if _, err := w.Accept(t.Context(), Selection{Picks: []Pick{{Path: "a", Hunks: []int{1}}}}); err == nil {
		t.Error("a hunk of a folder is accepted")
	}
	if report := w.try2(Pick{Path: "./a//d", ID: "other"}); len(report.Left) != 1 || w.has()["a/d"] != "" {
		t.Errorf("another version is accepted: %+v", report)
	}
}

// One side's mode and the other's text, or two parts of a text, are brought together.
func TestModesMerge(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"agent's mode", "host's mode", "both"} {
		w.host(name, numbered(30), 0o644)
	}
	hosts := strings.Replace(numbered(30), "line 2\n", "host\n", 1)
	agents := strings.Replace(numbered(30), "line 25\n", "agent\n", 1)
	w.agent("agent's mode", numbered(30), 0o755)
	w.host("agent's mode", hosts, 0o644)
	w.agent("host's mode", agents, 0o644)
	w.host("host's mode", numbered(30), 0o755)
	w.agent("both", agents, 0o755)
	w.host("both", hosts, 0o644)
	if report := w.accept(); len(report.Done) != 3 || !report.Done[0].Merged || !report.Done[1].Merged || !report.Done[2].Merged {
		t.Errorf("%+v", report)
	}
	equalMaps(t, "real", w.has(), map[string]string{
		"agent's mode": show(File, 0o755, hosts), "host's mode": show(File, 0o755, agents), "both": show(File, 0o755, strings.Replace(hosts, "line 25\n", "agent\n", 1)),
	})
	if out := w.compute(); len(out.Changes) != 0 {
		t.Errorf("%+v", out.Changes)
	}
	w.agent("both", numbered(30), 0o600)
	w.host("both", numbered(30), 0o640)
	if report := w.try(Selection{}); len(report.Left) != 1 || !strings.Contains(report.Left[0].Reason, "mode") {
		t.Errorf("%+v", report)
	}
}
