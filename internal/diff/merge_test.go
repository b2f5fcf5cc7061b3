package diff

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// gitMerge merges with git, and reports false for conflicts.
func gitMerge(t *testing.T, base, ours, theirs string) (string, bool) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"base": base, "ours": ours, "theirs": theirs} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("git", "merge-file", "-p", "ours", "base", "theirs")
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 && exit.ExitCode() < 128 {
		return "", false
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out), true
}

// edited returns the lines with some random ones replaced, removed and added.
func edited(r *rand.Rand, text []string, who string) []string {
	text = slices.Clone(text)
	for range r.IntN(5) {
		at := r.IntN(len(text) + 1)
		end := min(len(text), at+r.IntN(3))
		var in []string
		for range r.IntN(3) {
			in = append(in, fmt.Sprintf("%s %d\n", who, r.IntN(20)))
		}
		text = slices.Replace(text, at, end, in...)
	}
	return text
}

func TestMergeAsGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git: make setup")
	}
	clean := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // repeatable
		var base []string
		for i := range r.IntN(40) {
			base = append(base, fmt.Sprintf("line %d\n", i))
		}
		b, o, th := strings.Join(base, ""), strings.Join(edited(r, base, "same"), ""), strings.Join(edited(r, base, []string{"same", "other"}[r.IntN(2)]), "")
		if r.IntN(4) == 0 {
			o = strings.TrimSuffix(o, "\n")
		}
		got, ok := Merge(b, o, th)
		want, wantOK := gitMerge(t, b, o, th)
		if ok != wantOK || got != want {
			t.Errorf("seed %d: %v, git %v\nbase %q\nours %q\ntheirs %q\n got %q\nwant %q", seed, ok, wantOK, b, o, th, got, want)
		}
		if ok {
			clean++
		}
	}
	if clean < 100 || clean > 390 {
		t.Errorf("%d of 400 merges are clean: that tests little", clean)
	}
}

// A part of the hunks is applied, and the rest later.
func TestSelect(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // repeatable
		var base []string
		for i := range r.IntN(80) {
			base = append(base, fmt.Sprintf("line %d\n", i%7))
		}
		before, after := strings.Join(base, ""), strings.Join(edited(r, base, "new"), "")
		mask := r.Uint64()
		some := func(i int) bool { return mask>>i&1 == 1 }
		part := Select(before, after, some)
		if got := Select(before, after, func(int) bool { return true }); got != after {
			t.Errorf("seed %d: all hunks make %q, want %q", seed, got, after)
		}
		if got := Select(before, after, func(int) bool { return false }); got != before {
			t.Errorf("seed %d: no hunks make %q, want %q", seed, got, before)
		}
		if got := Select(part, after, func(int) bool { return true }); got != after {
			t.Errorf("seed %d: the rest makes %q, want %q", seed, got, after)
		}
		if some(0) != some(1) && len(Hunks(before, after)) == 2 && (part == before || part == after) {
			t.Errorf("seed %d: one hunk of two makes %q", seed, part)
		}
	}
}

func FuzzMerge(f *testing.F) {
	f.Add("a\nb\nc\n", "x\nb\nc\n", "a\nb\ny")
	f.Add("", "a", "b")
	f.Add("a\na\nb\na\n", "a\nb\na\n", "a\na\nb\n")
	f.Fuzz(func(t *testing.T, base, ours, theirs string) {
		for _, tc := range [][4]string{{base, base, theirs, theirs}, {base, ours, base, ours}, {base, ours, ours, ours}} {
			if got, ok := Merge(tc[0], tc[1], tc[2]); !ok || got != tc[3] {
				t.Errorf("Merge(%q, %q, %q) is %q, %v", tc[0], tc[1], tc[2], got, ok)
			}
		}
		one, ok1 := Merge(base, ours, theirs)
		two, ok2 := Merge(base, theirs, ours)
		if one != two || ok1 != ok2 {
			t.Errorf("Merge(%q, %q, %q) depends on the order: %q, %q", base, ours, theirs, one, two)
		}
		if got := Select(base, ours, func(int) bool { return true }); got != ours {
			t.Errorf("Select(%q, %q) is %q", base, ours, got)
		}
	})
}
