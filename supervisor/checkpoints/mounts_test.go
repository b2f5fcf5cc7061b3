package checkpoints_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/checkpoints"
)

// mounted is a folder of this computer in the place of what an agent changed in a mount.
type mounted struct {
	*history.History
	dir    *os.Root
	failed error
	slow   bool
	waited int
	killed bool // in the middle of a restore
}

func (m *mounted) root() checkpoints.Root {
	return checkpoints.Root{
		Name: checkpoints.MountRoot("/mnt/app", "mount/app"), Folder: "/mnt/app",
		Checkpoint: func(ctx context.Context) (history.Digest, error) {
			if m.slow {
				m.waited++
				<-ctx.Done()
				return history.Digest{}, ctx.Err()
			}
			if m.failed != nil {
				return history.Digest{}, m.failed
			}
			made, err := m.History.Checkpoint(ctx, "mount/app", m.dir)
			return made.Tree, err
		},
		Restore: func(ctx context.Context, to history.Digest, paths []string) (history.Restored, error) {
			if m.killed {
				paths = []string{"f"}
			}
			return m.History.Restore(ctx, "mount/app", m.dir, to, paths, nil)
		},
	}
}

// A call's changes in a mount are shown and undone with those of the home, or by their paths in the room.
func TestMounts(t *testing.T) { timetest.Synthetic(t, tryMounts) }

func tryMounts(t *testing.T) {
	w := newWorld(t)
	dir, err := os.OpenRoot(t.TempDir())
	w.must(err)
	defer dir.Close()
	m := &mounted{History: w.History, dir: dir}
	w.UseMounts(func(config.AgentID) []checkpoints.Root { return []checkpoints.Root{m.root()} })
	call := func() {
		r := w.Begin(t.Context(), w.alice, "exec", "")
		w.write("f=new", "g=new")
		w.must(dir.WriteFile("f", []byte("new"), 0o600))
		w.must(dir.Mkdir("d", 0o755))
		w.must(dir.WriteFile("d/f", []byte("new"), 0o600))
		if warning := r.End("ok"); warning != "" {
			t.Fatal(warning)
		}
	}
	has := func(want ...string) {
		t.Helper()
		var got []string
		for _, name := range []string{"f", "d/f"} {
			if _, err := dir.Stat(name); err == nil {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the mount has %q, want %q", got, want)
		}
	}
	call()
	show := func(paths ...string) string {
		var shown []string
		for c, err := range w.Diff(t.Context(), w.alice, checkpoints.Range{}, paths) {
			w.must(err)
			shown = append(shown, c.Path)
		}
		return strings.Join(shown, " ")
	}
	for paths, want := range map[string]string{"": "/mnt/app/d /mnt/app/d/f /mnt/app/f f g", "/mnt/app": "/mnt/app/d /mnt/app/d/f /mnt/app/f", "/mnt/app/d/f f": "/mnt/app/d/f f", "f": "f"} {
		if got := show(strings.Fields(paths)...); got != want {
			t.Errorf("%s: %s, want %s", paths, got, want)
		}
	}
	if _, err := w.undo(checkpoints.Request{Paths: []string{"/mnt/ap"}}); fault.KindOf(err) != fault.InvalidArgs {
		t.Error(err)
	}
	done, err := w.undo(checkpoints.Request{Paths: []string{"/mnt/app/d", "g"}})
	w.must(err)
	if done.Changed != 3 {
		t.Errorf("%+v", done.Changes)
	}
	has("f")
	w.holds("f=new")
	_, err = w.undo(checkpoints.Request{})
	w.must(err)
	has()
	w.holds()
	_, err = w.undo(checkpoints.Request{Redo: true})
	w.must(err)
	has("f")
	// A mount that cannot be kept does not keep the home from being kept.
	m.failed = errors.New("it cannot be read")
	w.call("h=new")
	_, err = w.undo(checkpoints.Request{})
	w.must(err)
	w.holds("f=new")
	m.failed = nil
	has("f")
	// Nor does one that takes too long, which is not tried again with each call.
	m.slow = true
	for n := range 2 {
		short, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		r := w.Begin(short, w.alice, "exec", "")
		if short.Err() != nil {
			t.Fatal("the mount has used all of the time")
		}
		cancel()
		w.write(fmt.Sprint("h=slow", n))
		if warning := r.End("ok"); warning != "" {
			t.Fatal(warning)
		}
	}
	if m.waited != 1 {
		t.Errorf("calls have waited for it %d times", m.waited)
	}
	m.slow = false
	_, err = w.undo(checkpoints.Request{})
	w.must(err)
	w.holds("f=new", "h=slow0")
}

// What a killed daemon has not undone in a mount is undone by the same request.
func TestKilledInAMount(t *testing.T) {
	w := newWorld(t)
	dir, err := os.OpenRoot(t.TempDir())
	w.must(err)
	defer dir.Close()
	m := &mounted{History: w.History, dir: dir, killed: true}
	mounts := func(config.AgentID) []checkpoints.Root { return []checkpoints.Root{m.root()} }
	w.UseMounts(mounts)
	r := w.Begin(t.Context(), w.alice, "exec", "")
	for _, name := range []string{"e", "f", "g"} {
		w.must(dir.WriteFile(name, []byte("new"), 0o600))
	}
	r.End("ok")
	_, err = w.undo(checkpoints.Request{})
	w.must(err)
	for _, change := range []string{"ended = 0, after = 'null', changed = 0, counts = 'null' WHERE tool = 'undo'", "undone = 0"} {
		_, err = w.DB.Exec(t.Context(), "test", "UPDATE history SET "+change)
		w.must(err)
	}
	w.open()
	w.UseMounts(mounts)
	m.killed = false
	w.wantCalls("2 undo -1 +0 -1 interrupted", "1 exec +3 +3 -0")
	_, err = w.undo(checkpoints.Request{})
	w.must(err)
	if left, err := os.ReadDir(dir.Name()); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	w.wantCalls("3 undo -2 +0 -2", "2 undo -1 +0 -1 interrupted", "1 exec +3 +3 -0 undone by 3")
}
