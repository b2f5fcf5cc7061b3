package review

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/history"
)

// Everything that an agent can do is accepted into the folder, or rejected out of the room.
func TestEveryChange(t *testing.T) {
	build := func(t *testing.T) *world {
		w := newWorld(t)
		w.host("same", "same\n", 0o644)
		w.host("edited", "one\ntwo\n", 0o644)
		w.host("mode", "#!/bin/sh\n", 0o644)
		w.host("gone", "gone\n", 0o644)
		w.host("gone.d/a/b", "b\n", 0o644)
		w.host("opaque/old", "old\n", 0o644)
		w.host("opaque/sub/old", "old\n", 0o644)
		w.host("file-to-folder", "file\n", 0o644)
		w.host("folder-to-file/x/y", "y\n", 0o644)
		must(t, os.Symlink("same", filepath.Join(w.dir, "link")))
		must(t, os.Symlink("same", filepath.Join(w.dir, "link-to-file")))
		w.agent("same", "same\n", 0o644)
		w.agent("edited", "one\n2\n", 0o644)
		w.agent("mode", "#!/bin/sh\n", 0o755)
		w.agentRemove("gone")
		w.agentRemove("gone.d")
		w.agentRemove("opaque")
		w.agentFolder("opaque")
		w.agent("opaque/new", "new\n", 0o600)
		w.agentFolder("opaque/sub")
		w.agent("opaque/sub/new", "new\n", 0o600)
		w.agentRemove("file-to-folder")
		w.agentFolder("file-to-folder")
		w.agent("file-to-folder/in", "in\n", 0o644)
		w.agentRemove("folder-to-file")
		w.agent("folder-to-file", "file\n", 0o644)
		must(t, w.Symlink(t.Context(), "edited", "link"))
		w.agentRemove("link-to-file")
		w.agent("link-to-file", "file\n", 0o644)
		w.agentFolder("empty")
		must(t, w.Mkdir(t.Context(), "closed", 0o500))
		w.entries["closed/in"] = &node{Listed: Listed{Path: "closed/in", Entry: entry(File, 0o400, "")}, data: []byte("in\n")}
		w.agent("binary", "\x00\x01", 0o644)
		w.agent("new\n\x1b[", "odd\n", 0o644)
		must(t, w.Mkdir(t.Context(), "d", 0o755))
		must(t, w.Symlink(t.Context(), "../same", "d/up"))
		return w
	}
	t.Run("accept", func(t *testing.T) {
		w := build(t)
		want := w.seen()
		w.accept()
		equalMaps(t, "real", w.has(), want)
		if out := w.compute(); len(out.Changes) != 0 {
			t.Errorf("still changed: %+v", out.Changes)
		}
		if pending, err := w.History.Pending(); err != nil || len(pending) > 0 {
			t.Error("it is still pending", pending, err)
		}
	})
	t.Run("reject", func(t *testing.T) {
		w := build(t)
		want := w.has()
		if report := w.reject(); len(report.Left) > 0 {
			t.Errorf("left: %+v", report.Left)
		}
		equalMaps(t, "real", w.has(), want)
		equalMaps(t, "room", w.seen(), want)
		if out := w.compute(); len(out.Changes) != 0 {
			t.Errorf("still changed: %+v", out.Changes)
		}
	})
	t.Run("compute", func(t *testing.T) {
		types := map[string]string{}
		for _, c := range build(t).compute().Changes {
			types[c.Path] = string(c.What)
			if (len(c.Hunks) == 0) != (c.Binary || c.What == history.Mode || c.Before.Kind != File && c.After.Kind != File) {
				t.Errorf("%s has %d hunks", c.Path, len(c.Hunks))
			}
		}
		equalMaps(t, "types", types, map[string]string{
			"edited": "modified", "mode": "mode", "gone": "removed", "gone.d": "removed", "gone.d/a": "removed", "gone.d/a/b": "removed",
			"opaque/old": "removed", "opaque/new": "added", "opaque/sub/old": "removed", "opaque/sub/new": "added",
			"file-to-folder": "modified", "file-to-folder/in": "added", "folder-to-file": "modified", "folder-to-file/x": "removed", "folder-to-file/x/y": "removed",
			"link": "modified", "link-to-file": "modified", "empty": "added", "closed": "added", "closed/in": "added", "binary": "added", "new\n\x1b[": "added", "d": "added", "d/up": "added",
		})
	})
}

// model keeps whole copies of three files: what both sides had in common, what the host
// has, and what the agent has.
type model struct {
	base, real, agent map[string]string
	known             map[string]bool // the base
}

// Random edits of both sides, accepted and rejected by file and hunk, do what a model
// with whole copies does.
func TestAgainstModel(t *testing.T) {
	conflicts, merges, parts := 0, 0, 0
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // repeatable
		w := newWorld(t)
		m := newModel()
		names := []string{"a", "d/b", "d/e/c"}
		must(t, os.MkdirAll(filepath.Join(w.dir, "d/e"), 0o755))
		for step := range 60 {
			name := names[r.IntN(len(names))]
			what := ""
			switch n := r.IntN(10); {
			case n < 3:
				what = "agent"
				m.agentEdits(w, r, name)
			case n < 5:
				what = "host"
				m.hostEdits(w, r, name)
			case n < 7:
				what = "accept"
				merged, conflict := m.accept(name)
				report := w.try(Selection{}, name)
				if conflict {
					conflicts++
					if len(report.Left) != 1 || len(report.Done) != 0 {
						t.Fatalf("seed %d step %d: %s is no conflict: %+v", seed, step, name, report)
					}
				}
				if merged {
					merges++
				}
			case n < 8:
				what = "reject"
				m.reject(name)
				w.reject(Pick{Path: name})
			default:
				what = "part"
				if m.part(w, r, name) {
					parts++
				}
			}
			m.check(t, w, fmt.Sprintf("seed %d step %d: %s %s", seed, step, what, name))
			if t.Failed() {
				return
			}
		}
	}
	if conflicts < 50 || merges < 20 || parts < 50 {
		t.Errorf("only %d conflicts, %d merges, %d parts: that tests little", conflicts, merges, parts)
	}
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}
