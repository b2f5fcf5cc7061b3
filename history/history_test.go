package history_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/history"
)

// open opens a history in a folder of the test.
func open(t testing.TB, dir string, o history.Options) *history.History {
	t.Helper()
	h, err := history.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func root(t testing.TB, dir string) *os.Root {
	t.Helper()
	r, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// state is a whole copy of a folder: kind, mode and content of each path.
type state map[string]string

// look reads a folder without the package's code.
func look(t testing.TB, dir string) state {
	t.Helper()
	s := state{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		switch info.Mode().Type() {
		case 0:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(data)
		case fs.ModeSymlink:
			if content, err = os.Readlink(path); err != nil {
				return err
			}
			s[name] = "link " + content
			return nil
		}
		s[name] = info.Mode().String() + " " + content
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func same(t testing.TB, got, want state) {
	t.Helper()
	for path, is := range want {
		if got[path] != is {
			t.Errorf("%q is %.80q, want %.80q", path, got[path], is)
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			t.Errorf("%q is there", path)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// editor edits a folder at random.
// Its root keeps it from following links out of the folder.
type editor struct {
	t    testing.TB
	r    *rand.Rand
	root *os.Root
}

func edits(t testing.TB, r *rand.Rand, dir string) *editor {
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return &editor{t, r, root}
}

// name returns a random name, of few, so that kinds change.
func (e *editor) name() string {
	return []string{"a", "b", "new\nline", "\xff\xfe", " ", "ü", "-rf", "c.txt"}[e.r.IntN(8)]
}

func (e *editor) path() string {
	p := "."
	for range 1 + e.r.IntN(3) {
		p = filepath.Join(p, e.name())
	}
	return p
}

func (e *editor) content() []byte {
	size := []int{0, 1, 100, 70_000, 200_000}[e.r.IntN(5)]
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(e.r.IntN(3))
	}
	return data
}

// edit makes a random change. What is impossible is none.
func (e *editor) edit() {
	p := e.path()
	switch e.r.IntN(10) {
	case 0, 1, 2:
		e.root.MkdirAll(filepath.Dir(p), 0o755)
		e.root.WriteFile(p, e.content(), []fs.FileMode{0o644, 0o600, 0o755, 0o444}[e.r.IntN(4)])
	case 3:
		e.root.MkdirAll(p, 0o755)
	case 4:
		e.root.RemoveAll(p)
	case 5:
		e.root.Symlink([]string{"a", "/etc/passwd", "../..", "\xff", "."}[e.r.IntN(5)], p)
	case 6:
		if info, err := e.root.Lstat(p); err == nil && info.Mode().IsRegular() {
			e.root.Chmod(p, []fs.FileMode{0o644, 0o400, 0o755 | fs.ModeSetuid, 0o777}[e.r.IntN(4)])
		} else if err == nil && info.IsDir() {
			e.root.Chmod(p, []fs.FileMode{0o755, 0o500, 0o700 | fs.ModeSticky}[e.r.IntN(3)])
		}
	case 7:
		e.root.Rename(p, e.path())
	case 8: // the same size and time
		if info, err := e.root.Lstat(p); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			if f, err := e.root.OpenFile(p, os.O_WRONLY, 0); err == nil {
				f.WriteAt([]byte{byte(e.r.IntN(256))}, 0)
				f.Close()
				e.root.Chtimes(p, info.ModTime(), info.ModTime())
			}
		}
	case 9:
		if f, err := e.root.OpenFile(p, os.O_WRONLY|os.O_APPEND|syscall.O_NOFOLLOW, 0); err == nil {
			f.WriteString("more")
			f.Close()
		}
	}
}

// TestAgainstModel edits, records, restores, resumes and prunes at random.
func TestAgainstModel(t *testing.T) {
	for range 3 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { againstModel(t, seed) })
	}
}

func againstModel(t *testing.T, seed uint64) {
	dir, store := t.TempDir(), t.TempDir()
	e := edits(t, rand.New(rand.NewPCG(seed, 1)), dir)
	h, r := open(t, store, history.Options{}), root(t, dir)
	type point struct {
		tree  history.Digest
		state state
	}
	var points []point
	for range 25 {
		for range e.r.IntN(12) {
			e.edit()
		}
		c, err := h.Checkpoint(t.Context(), "home", r)
		if err != nil {
			t.Fatal(err)
		}
		points = append(points, point{c.Tree, look(t, dir)})
		to := points[e.r.IntN(len(points))]
		switch e.r.IntN(4) {
		case 0, 1:
			done, err := h.Restore(t.Context(), "home", r, to.tree, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(done.Notes) > 0 {
				t.Fatal(done.Notes)
			}
			same(t, look(t, dir), to.state)
			back, err := h.Restore(t.Context(), "home", r, done.Before, nil, nil)
			if err != nil || back.Changed != done.Changed {
				t.Fatalf("%v: %d changes there, %d back", err, done.Changed, back.Changed)
			}
			same(t, look(t, dir), points[len(points)-1].state)
		case 2:
			path := strings.TrimPrefix(e.path(), dir+"/")
			if onlyPath(t, h, r, to.tree, path) {
				same(t, within(look(t, dir), path), within(to.state, path))
				same(t, without(look(t, dir), path), without(points[len(points)-1].state, path))
			}
		case 3:
			points = slices.Delete(points, 0, len(points)/2)
			_, _, err := h.Prune(t.Context(), func() (keep []history.Digest, err error) {
				for _, p := range points {
					keep = append(keep, p.tree)
				}
				return keep, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if damaged, err := h.Verify(t.Context()); len(damaged) > 0 || err != nil {
		t.Fatal(damaged, err)
	}
}

// onlyPath restores one path. It reports whether all was restored.
func onlyPath(t *testing.T, h *history.History, r *os.Root, to history.Digest, path string) bool {
	now, _ := h.Head("home")
	_, nowErr := h.Find(t.Context(), now, path)
	_, thenErr := h.Find(t.Context(), to, path)
	done, err := h.Restore(t.Context(), "home", r, to, []string{path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range done.Notes { // what is a file now was a folder
		if n.Why != "it was changed meanwhile" {
			t.Fatal(n)
		}
	}
	return (nowErr == nil || thenErr == nil) && len(done.Notes) == 0
}

func inside(path, top string) bool { return path == top || strings.HasPrefix(path, top+"/") }

func within(s state, top string) state {
	w := state{}
	for p, is := range s {
		if inside(p, top) {
			w[p] = is
		}
	}
	return w
}

// without leaves out what is in a path, and folders above it, which may have been made.
func without(s state, top string) state {
	w := state{}
	for p, is := range s {
		if !inside(p, top) && !inside(top, p) {
			w[p] = is
		}
	}
	return w
}

// TestUnchanged makes checkpoints of an unchanged folder.
func TestUnchanged(t *testing.T) {
	dir, store := t.TempDir(), t.TempDir()
	h, r := open(t, store, history.Options{}), root(t, dir)
	for i := range 50 {
		path := filepath.Join(dir, fmt.Sprint(i%7), fmt.Sprint(i))
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, fmt.Append(nil, i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, err := h.Checkpoint(t.Context(), "home", r)
	if err != nil || first.Read != 50 {
		t.Fatal(first, err)
	}
	for last := time.Now(); ; { // files changed in the second before a scan are read again
		c, err := h.Checkpoint(t.Context(), "home", r)
		if err != nil || c.Tree != first.Tree {
			t.Fatal(c, err)
		}
		if c.Read == 0 {
			break
		}
		if time.Since(last) > time.Minute {
			t.Fatal("files are always read again")
		}
	}
	before := look(t, store)
	if c, err := h.Checkpoint(t.Context(), "home", r); err != nil || c.Tree != first.Tree || c.Read != 0 {
		t.Fatal(c, err)
	}
	same(t, look(t, store), before)
	heads, err := filepath.Glob(filepath.Join(store, "heads", "*"))
	if err != nil || len(heads) != 1 {
		t.Fatal(heads, err)
	}
	data, err := os.ReadFile(heads[0])
	if err != nil {
		t.Fatal(err)
	}
	var head map[string]any
	if err := json.Unmarshal(data, &head); err != nil {
		t.Fatal(err)
	}
	head["Scanned"] = time.Unix(0, 0) // before all files were changed
	if data, err = json.Marshal(head); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(heads[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := h.Checkpoint(t.Context(), "home", r); err != nil || c.Tree != first.Tree || c.Read != 50 {
		t.Fatal(c, err)
	}
}
