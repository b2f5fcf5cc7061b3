package history_test

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
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/history"
	"osaurus-sandbox/history/store"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
)

func checkpoint(t testing.TB, h *history.History, r *os.Root) history.Checkpoint {
	t.Helper()
	c, err := h.Checkpoint(t.Context(), "home", r)
	must(t, err)
	return c
}

// fill makes a folder with files of several kinds and sizes.
func fill(t testing.TB, dir, version string) {
	t.Helper()
	for i := range 30 {
		path := filepath.Join(dir, fmt.Sprint("folder", i%5, version[:i%2]), fmt.Sprint("f", i))
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, bytes.Repeat([]byte(version), 1+i*i*200), 0o644))
	}
	must(t, os.Symlink(version, filepath.Join(dir, "link")))
}

func empty(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		must(t, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
}

// TestKilled kills a process that restores two trees in turn. Afterwards, one of them is there.
func TestKilled(t *testing.T) {
	const variable = "OSAURUS_HISTORY_CHILD"
	if arguments := os.Getenv(variable); arguments != "" {
		f := strings.Split(arguments, "\n")
		h, r := open(t, f[0], history.Options{}), root(t, f[1])
		fmt.Println("ready")
		for i := 2; ; i = 5 - i {
			to, err := store.ParseDigest(f[i])
			must(t, err)
			_, err = h.Restore(t.Context(), "home", r, to, nil, nil)
			must(t, err)
			fmt.Println("ready")
		}
	}
	dir, kept := t.TempDir(), t.TempDir()
	h, r := open(t, kept, history.Options{}), root(t, dir)
	fill(t, dir, "one")
	one, first := checkpoint(t, h, r), look(t, dir)
	empty(t, dir)
	fill(t, dir, "two")
	two, second := checkpoint(t, h, r), look(t, dir)
	resumed := 0
	for range 25 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), variable+"="+strings.Join([]string{kept, dir, one.Tree.String(), two.Tree.String()}, "\n"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		line := make([]byte, 6)
		for range 2 {
			if _, err := io.ReadFull(out, line); err != nil {
				t.Fatalf("the child ends: %q, %v", line, err)
			}
		}
		time.Sleep(time.Duration(rand.IntN(20_000)) * time.Microsecond) // at any point
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		h = open(t, kept, history.Options{})
		pending, err := h.Pending()
		must(t, err)
		for _, key := range pending {
			resumed++
			done, err := h.Resume(t.Context(), key, r)
			if err != nil || len(done.Notes) > 0 {
				t.Fatal(done.Notes, err)
			}
		}
		if now := look(t, dir); now["link"] == first["link"] {
			same(t, now, first)
		} else {
			same(t, now, second)
		}
		if tmp, err := os.ReadDir(filepath.Join(kept, "tmp")); err != nil || len(tmp) > 0 {
			t.Fatal(tmp, err)
		}
		if damaged, err := h.Verify(t.Context()); err != nil || len(damaged) > 0 {
			t.Fatal(damaged, err)
		}
	}
	t.Logf("%d of 25 restores were resumed", resumed)
}

// objects lists the files of a store's objects.
func objects(t testing.TB, kept string) state {
	t.Helper()
	return look(t, filepath.Join(kept, "objects"))
}

// TestDamaged flips a byte of a file's object.
func TestDamaged(t *testing.T) {
	dir, kept := t.TempDir(), t.TempDir()
	h, r := open(t, kept, history.Options{}), root(t, dir)
	fill(t, dir, "one")
	old, first := checkpoint(t, h, r), look(t, dir)
	e, err := h.Find(t.Context(), old.Tree, "folder4/f4")
	must(t, err)
	name := e.Content.String()
	object := filepath.Join(kept, "objects", name[:2], name[2:])
	data, err := os.ReadFile(object)
	must(t, err)
	data[len(data)/2] ^= 1
	must(t, os.Chmod(object, 0o600))
	must(t, os.WriteFile(object, data, 0o600))
	empty(t, dir)
	fill(t, dir, "two")
	second := look(t, dir)
	_, err = h.Restore(t.Context(), "home", r, old.Tree, nil, nil)
	if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "folder4/f4") {
		t.Fatal(err)
	}
	same(t, look(t, dir), second)
	if pending, err := h.Pending(); err != nil || len(pending) > 0 {
		t.Fatal(pending, err)
	}
	c, err := h.Content(e)
	must(t, err)
	if _, err := io.ReadAll(c); !errors.Is(err, store.ErrDamaged) {
		t.Fatal(err)
	}
	damaged, err := h.Verify(t.Context())
	if err != nil || len(damaged) != 1 || damaged[0] != e.Content {
		t.Fatal(damaged, err)
	}
	empty(t, dir)
	fill(t, dir, "one")
	checkpoint(t, h, r) // stores it again
	empty(t, dir)
	_, err = h.Restore(t.Context(), "home", r, old.Tree, nil, nil)
	must(t, err)
	same(t, look(t, dir), first)
}

// TestTreeLost restores checkpoints that lack a tree.
func TestTreeLost(t *testing.T) {
	dir, kept := t.TempDir(), t.TempDir()
	h, r := open(t, kept, history.Options{}), root(t, dir)
	fill(t, dir, "one")
	old := checkpoint(t, h, r)
	sub, err := h.Find(t.Context(), old.Tree, "folder4")
	must(t, err)
	empty(t, dir)
	fill(t, dir, "two")
	must(t, os.RemoveAll(filepath.Join(dir, "folder4")))
	second := look(t, dir)
	for _, d := range []history.Digest{sub.Content, old.Tree} {
		name := d.String()
		must(t, os.Remove(filepath.Join(kept, "objects", name[:2], name[2:])))
		_, err = h.Restore(t.Context(), "home", r, old.Tree, nil, nil)
		if fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), name) {
			t.Fatal(err)
		}
		same(t, look(t, dir), second)
		if pending, err := h.Pending(); err != nil || len(pending) > 0 {
			t.Fatal(pending, err)
		}
	}
}

// TestBudget makes a checkpoint that needs more than there is.
func TestBudget(t *testing.T) {
	dir, kept := t.TempDir(), t.TempDir()
	h, r := open(t, kept, history.Options{MaxBytes: 1 << 20}), root(t, dir)
	must(t, os.WriteFile(filepath.Join(dir, "f"), make([]byte, 900<<10), 0o600))
	first := checkpoint(t, h, r)
	before := objects(t, kept)
	must(t, os.WriteFile(filepath.Join(dir, "a"), bytes.Repeat([]byte("x"), 60<<10), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "g"), bytes.Repeat([]byte("y"), 200<<10), 0o600))
	if _, err := h.Checkpoint(t.Context(), "home", r); fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
		t.Fatal(err)
	}
	same(t, objects(t, kept), before)
	if head, ok := h.Head("home"); !ok || head != first.Tree {
		t.Fatal(head, ok)
	}
}

// TestLeftAlone restores a folder with what no checkpoint keeps.
func TestLeftAlone(t *testing.T) {
	dir := t.TempDir()
	h, r := open(t, t.TempDir(), history.Options{MaxFile: 1 << 20, Caches: history.DefaultCaches()}), root(t, dir)
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.WriteFile(at("f"), []byte("old"), 0o644))
	early := checkpoint(t, h, r)
	for _, d := range []string{"x/pipes", ".cache", "target"} {
		must(t, os.MkdirAll(at(d), 0o755))
	}
	must(t, unix.Mkfifo(at("x/pipes/p"), 0o600))
	must(t, os.WriteFile(at(".cache/c"), []byte("c"), 0o600))
	must(t, os.WriteFile(at("target/CACHEDIR.TAG"), []byte("Signature: 8a477f597d28d172789f06886806bc55\n"), 0o600))
	must(t, os.WriteFile(at("x/huge"), nil, 0o600))
	must(t, os.Truncate(at("x/huge"), 2<<20))
	must(t, os.Symlink("loop", at("x/loop")))
	deep := "x"
	for range 200 {
		deep += "/d"
	}
	must(t, os.MkdirAll(at(deep), 0o755))
	must(t, os.WriteFile(at("f"), []byte("new"), 0o600))
	full := checkpoint(t, h, r)
	for path, kind := range map[string]history.Kind{"x/pipes/p": history.Special, "x/huge": history.TooLarge, ".cache": history.Excluded, "target": history.Excluded, "x/loop": history.Link} {
		if e, err := h.Find(t.Context(), full.Tree, path); err != nil || e.Kind != kind {
			t.Errorf("%s is %c, %v", path, e.Kind, err)
		}
	}
	left := look(t, dir)
	done, err := h.Restore(t.Context(), "home", r, early.Tree, nil, nil)
	must(t, err)
	if len(done.Notes) == 0 {
		t.Fatal("nothing was left alone")
	}
	now := look(t, dir)
	for _, name := range []string{"x/pipes/p", ".cache/c", "target/CACHEDIR.TAG", "x/huge", deep} {
		if now[name] == "" || now[name] != left[name] {
			t.Errorf("%s is %q", name, now[name])
		}
	}
	if now["f"] != "-rw-r--r-- old" || now["x/loop"] != "" {
		t.Errorf("%q %q", now["f"], now["x/loop"])
	}
}

// TestSwapped replaces a folder and a file by links to the outside before they are restored.
func TestSwapped(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	h, r := open(t, t.TempDir(), history.Options{}), root(t, dir)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{dir, outside} {
		must(t, os.MkdirAll(filepath.Join(d, "d"), 0o755))
		for _, f := range []string{"d/f", "d/gone", "f", "mode"} {
			must(t, os.WriteFile(filepath.Join(d, f), []byte("old"), 0o644))
		}
	}
	old := checkpoint(t, h, r)
	for _, f := range []string{"d/f", "d/new", "f"} {
		must(t, os.WriteFile(at(f), []byte("new"), 0o644))
	}
	must(t, os.Remove(at("d/gone")))
	must(t, os.Chmod(at("mode"), 0o600))
	before := look(t, outside)
	swapped := false
	done, err := h.Restore(t.Context(), "home", r, old.Tree, nil, func(progress.Event) {
		if swapped {
			return
		}
		swapped = true
		must(t, os.RemoveAll(at("d")))
		must(t, os.Symlink(filepath.Join(outside, "d"), at("d")))
		for _, f := range []string{"f", "mode"} {
			must(t, os.Remove(at(f)))
			must(t, os.Symlink(filepath.Join(outside, f), at(f)))
		}
	})
	if err != nil || len(done.Notes) != 3 {
		t.Fatal(done.Notes, err)
	}
	same(t, look(t, outside), before)
}

// TestEditedMeanwhile restores, fails, and goes back or resumes after somebody has changed files: their changes stay.
func TestEditedMeanwhile(t *testing.T) {
	for _, lost := range []bool{false, true} {
		dir, kept := t.TempDir(), t.TempDir()
		at := func(name string) string { return filepath.Join(dir, name) }
		object := func(e history.Entry) string {
			return filepath.Join(kept, "objects", e.Content.String()[:2], e.Content.String()[2:])
		}
		write := func(name, text string) { must(t, os.WriteFile(at(name), []byte(text), 0o644)) }
		ctx, cancel := context.WithCancel(t.Context())
		var step func()
		h, r := open(t, kept, history.Options{Step: func(path string) {
			if path == "c" {
				step()
			}
		}}), root(t, dir)
		must(t, os.Mkdir(at("d"), 0o755))
		for _, name := range []string{"a", "b", "c", "e", "d/f"} {
			write(name, "old "+name)
		}
		old := checkpoint(t, h, r)
		for _, name := range []string{"a", "b", "c", "d/f"} {
			write(name, "new "+name)
		}
		must(t, os.Remove(at("e")))
		now := checkpoint(t, h, r)
		e, err := h.Find(t.Context(), now.Tree, "b")
		must(t, err)
		step = func() {
			cancel() // so that it fails at d
			if write("a", "somebody's"); lost {
				must(t, os.Rename(object(e), kept+"/lost"))
			}
		}
		if _, err = h.Restore(ctx, "home", r, old.Tree, nil, nil); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		want := state{"a": "-rw-r--r-- somebody's", "b": "-rw-r--r-- new b", "c": "-rw-r--r-- new c", "d/f": "-rw-r--r-- new d/f"}
		if lost { // it has not gone back
			must(t, os.Rename(kept+"/lost", object(e)))
			write("c", "the agent's, later")
			write("e", "another")
			write("g", "one more")
			want["c"], want["e"], want["g"] = "-rw-r--r-- the agent's, later", "-rw-r--r-- another", "-rw-r--r-- one more"
			done, err := open(t, kept, history.Options{}).Resume(t.Context(), "home", r)
			if must(t, err); len(done.Notes) != 4 {
				t.Errorf("%+v", done.Notes)
			}
		}
		got := look(t, dir)
		want["d"] = got["d"]
		same(t, got, want)
		if pending, err := h.Pending(); err != nil || len(pending) > 0 {
			t.Error(pending, err)
		}
	}
}

// TestLarge keeps chunks and holes, and finds what changed in one.
func TestLarge(t *testing.T) {
	dir, kept := t.TempDir(), t.TempDir()
	h, r := open(t, kept, history.Options{}), root(t, dir)
	path := filepath.Join(dir, "large")
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(10<<30))
	for i, at := range []int64{5, 3 * store.ChunkSize, 10<<30 - 4} {
		_, err = f.WriteAt([]byte{1, 2, 3, byte(i)}, at)
		must(t, err)
	}
	first := checkpoint(t, h, r)
	_, err = f.WriteAt([]byte{9}, 3*store.ChunkSize+100)
	must(t, err)
	count := len(objects(t, kept))
	second := checkpoint(t, h, r)
	if n := len(objects(t, kept)) - count; n != 3 { // a chunk, the list and the tree
		t.Errorf("%d new objects", n)
	}
	if first.Tree == second.Tree {
		t.Error("the change is not seen")
	}
	must(t, os.Remove(path))
	_, err = h.Restore(t.Context(), "home", r, first.Tree, nil, nil)
	must(t, err)
	info, err := os.Stat(path)
	must(t, err)
	if taken := info.Sys().(*syscall.Stat_t).Blocks * 512; info.Size() != 10<<30 || taken > 4*store.ChunkSize {
		t.Errorf("%d bytes take %d", info.Size(), taken)
	}
	g, err := os.Open(path)
	must(t, err)
	defer g.Close()
	buf := make([]byte, 101)
	_, err = g.ReadAt(buf, 3*store.ChunkSize)
	if err != nil || !bytes.Equal(buf[:5], []byte{1, 2, 3, 1, 0}) || buf[100] != 0 {
		t.Errorf("%v %v", buf, err)
	}
}

// TestPruneBeside makes checkpoints while others are pruned.
func TestPruneBeside(t *testing.T) {
	h := open(t, t.TempDir(), history.Options{})
	ctx, stop := context.WithCancel(t.Context())
	var work, pruner sync.WaitGroup
	var mu sync.RWMutex
	var keep []history.Digest
	pruner.Go(func() {
		for ctx.Err() == nil {
			_, _, err := h.Prune(t.Context(), func() ([]history.Digest, error) {
				mu.Lock()
				defer mu.Unlock()
				keep = keep[len(keep)/2:]
				return append([]history.Digest(nil), keep...), nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
	for w := range 3 {
		dir := t.TempDir()
		r := root(t, dir)
		work.Go(func() {
			for i := range 60 {
				name := filepath.Join(dir, fmt.Sprint(i%10))
				if err := os.WriteFile(name, fmt.Append(nil, "content ", i%25), 0o600); err != nil {
					t.Error(err)
				}
				mu.RLock()
				c, err := h.Checkpoint(t.Context(), fmt.Sprint("home", w), r)
				mu.RUnlock()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				keep = append(keep, c.Tree)
				mu.Unlock()
				if _, err := h.Restore(t.Context(), fmt.Sprint("home", w), r, c.Tree, nil, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	stop()
	pruner.Wait()
	for _, tree := range keep {
		for c, err := range h.Diff(t.Context(), history.Digest{}, tree) {
			must(t, err)
			r, err := h.Content(c.After)
			must(t, err)
			_, err = io.ReadAll(r)
			must(t, err)
		}
	}
}

// TestTreeAsFile keeps a file whose bytes are those of a tree, so that they are one object.
func TestTreeAsFile(t *testing.T) {
	dir, kept := t.TempDir(), t.TempDir()
	h, r := open(t, kept, history.Options{}), root(t, dir)
	must(t, os.Mkdir(filepath.Join(dir, "z"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "z/f"), []byte("content"), 0o644))
	c := checkpoint(t, h, r)
	e, err := h.Find(t.Context(), c.Tree, "z")
	must(t, err)
	name := e.Content.String()
	data, err := os.ReadFile(filepath.Join(kept, "objects", name[:2], name[2:]))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "a"), data, 0o644)) // marked before the folder
	c = checkpoint(t, h, r)
	_, _, err = h.Prune(t.Context(), func() ([]history.Digest, error) { return nil, nil })
	must(t, err)
	want := look(t, dir)
	empty(t, dir)
	_, err = h.Restore(t.Context(), "home", r, c.Tree, nil, nil)
	must(t, err)
	same(t, look(t, dir), want)
}

// TestPaths keeps only some paths, and what was kept of others.
func TestPaths(t *testing.T) {
	dir := t.TempDir()
	h, r := open(t, t.TempDir(), history.Options{}), root(t, dir)
	fill(t, dir, "one")
	list := func(c history.Checkpoint) (paths []string) {
		for c, err := range h.Diff(t.Context(), history.Digest{}, c.Tree) {
			must(t, err)
			paths = append(paths, c.Path)
		}
		return paths
	}
	c, err := h.Checkpoint(t.Context(), "home", r, "folder0/f0", "link")
	must(t, err)
	if got := fmt.Sprint(list(c)); got != "[folder0 folder0/f0 link]" {
		t.Error(got)
	}
	must(t, os.Remove(filepath.Join(dir, "link")))
	c, err = h.Checkpoint(t.Context(), "home", r, "folder1o", "none")
	must(t, err)
	if got := fmt.Sprint(list(c)); got != "[folder0 folder0/f0 folder1o folder1o/f1 folder1o/f11 folder1o/f21 link]" {
		t.Error(got)
	}
	for _, bad := range []string{"../x", "/etc", "a//b", "", "a\x00"} {
		if _, err := h.Checkpoint(t.Context(), "home", r, bad); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestLines(t *testing.T) {
	h := open(t, t.TempDir(), history.Options{})
	for _, tc := range []struct {
		before, after string
		want          history.Lines
	}{
		{"a\nb\n", "a\nc\nd\n", history.Lines{Added: 2, Removed: 1, Hunks: []string{"@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n"}}},
		{"", "--- x\n+++ y\n", history.Lines{Added: 2, Hunks: []string{"@@ -0,0 +1,2 @@\n+--- x\n++++ y\n"}}},
		{"a", "\x00", history.Lines{Binary: true}},
		{strings.Repeat("x", history.MaxText+1), "", history.Lines{Binary: true}},
	} {
		dir := t.TempDir()
		var sides [2]history.Entry
		for i, text := range []string{tc.before, tc.after} {
			must(t, os.WriteFile(filepath.Join(dir, "f"), []byte(text), 0o600))
			var err error
			sides[i], err = h.Find(t.Context(), checkpoint(t, h, root(t, dir)).Tree, "f")
			must(t, err)
		}
		got, err := h.Lines(t.Context(), history.Change{Path: "a\nname", Before: sides[0], After: sides[1]})
		must(t, err)
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%.20q, %.20q: %+v", tc.before, tc.after, got)
		}
	}
}
