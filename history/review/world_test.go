package review

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/history"
)

// TestMain keeps the folders of tests in memory where it can: on a disk, syncing takes most of the time.
func TestMain(m *testing.M) {
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); err == nil && info.IsDir() && os.Getenv("TMPDIR") == "" {
		os.Setenv("TMPDIR", memory)
	}
	os.Exit(m.Run())
}

// Short names of kinds.
const (
	Nothing  Kind = 0
	File          = history.File
	Folder        = history.Folder
	Symlink       = history.Link
	Other         = history.Special
	Whiteout      = history.Whiteout
	Opaque        = history.Opaque
)

type Kind = history.Kind

// entry is an entry without a path.
func entry(kind Kind, mode fs.FileMode, target string) history.Entry {
	return history.Entry{Kind: kind, Mode: mode, Target: target}
}

// world is a real folder, and a room whose overlay over it is made in memory.
type world struct {
	*Review
	t       *testing.T
	dir     string
	entries map[string]*node // the upper layer
	tick    int
	touched map[string]int    // when the host changed a path
	bornNow bool              // entries are born when they are made, not an hour before or after
	reached func(path string) // Accept is about to change a path
}

type node struct {
	Listed
	data []byte
	born int
	made time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	return worldIn(t, dir)
}

func worldIn(t *testing.T, dir string) *world {
	t.Helper()
	real := filepath.Join(dir, "real")
	must(t, os.MkdirAll(real, 0o755))
	root, err := os.OpenRoot(real)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	w := &world{t: t, dir: real, entries: map[string]*node{}, touched: map[string]int{}}
	kept, err := history.Open(filepath.Join(dir, "history"), history.Options{Step: func(path string) {
		if w.reached != nil {
			w.reached(path)
		}
	}})
	must(t, err)
	w.Review = &Review{History: kept, Key: "mount", Real: root, Upper: upper{w}, View: w.put}
	return w
}

// anyHistory opens a history in a folder of its own.
func anyHistory(t *testing.T) *history.History {
	t.Helper()
	kept, err := history.Open(t.TempDir(), history.Options{})
	must(t, err)
	return kept
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// host changes the real folder as a person does. Nil data removes.
func (w *world) host(name, data string, mode fs.FileMode) {
	w.t.Helper()
	w.tick++
	w.touched[name] = w.tick
	at := filepath.Join(w.dir, name)
	must(w.t, os.MkdirAll(filepath.Dir(at), 0o755))
	must(w.t, os.WriteFile(at, []byte(data), 0o600))
	must(w.t, os.Chmod(at, mode))
}

func (w *world) hostRemove(name string) {
	w.tick++
	w.touched[name] = w.tick
	must(w.t, os.RemoveAll(filepath.Join(w.dir, name)))
}

type upper struct{ w *world }

func (u upper) List(context.Context) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		for _, n := range u.w.entries {
			e := n.Listed
			e.Size = int64(len(n.data))
			e.Born = time.Now().Add(time.Hour) // younger than the real file
			switch {
			case u.w.bornNow:
				e.Born = n.made
			case u.w.changedSince(e.Path, n.born):
				e.Born = time.Now().Add(-time.Hour)
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// changedSince looks at the host's changes of a path and below it.
func (w *world) changedSince(name string, tick int) bool {
	for at, when := range w.touched {
		if when > tick && (name == at || strings.HasPrefix(at, name+"/")) {
			return true
		}
	}
	return false
}

func (u upper) Open(_ context.Context, name string) (io.ReadCloser, error) {
	n := u.w.entries[name]
	if n == nil {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(n.data)), nil
}

// covered reports whether a folder above a path hides what the real folder has.
func (w *world) covered(name string) bool {
	for at := parent(name); at != "."; at = parent(at) {
		if n := w.entries[at]; n != nil && n.Kind != Folder {
			return true
		}
	}
	return false
}

// lower returns what the real folder shows through at a path.
func (w *world) lower(name string) (fs.FileInfo, bool) {
	info, err := os.Lstat(filepath.Join(w.dir, name))
	return info, err == nil && !w.covered(name)
}

// kind returns what the agent sees at a path.
func (w *world) kind(name string) Kind {
	if name == "." {
		return Folder
	}
	for at := parent(name); at != "."; at = parent(at) {
		if n := w.entries[at]; n != nil && n.Kind != Folder && n.Kind != Opaque {
			return Nothing
		}
	}
	if n := w.entries[name]; n != nil {
		switch n.Kind {
		case Whiteout:
			return Nothing
		case Opaque:
			return Folder
		}
		return n.Kind
	}
	info, ok := w.lower(name)
	switch {
	case !ok:
		return Nothing
	case info.IsDir():
		return Folder
	case info.Mode()&fs.ModeSymlink != 0:
		return Symlink
	}
	return File
}

// set puts an entry into the upper layer, with the folders above it.
func (w *world) set(e Listed, data []byte) error {
	if w.kind(parent(e.Path)) != Folder {
		return fmt.Errorf("%s: no folder: %w", e.Path, fs.ErrNotExist)
	}
	for at := parent(e.Path); at != "."; at = parent(at) {
		if w.entries[at] == nil {
			info, _ := w.lower(at)
			w.entries[at] = &node{Listed: Listed{Path: at, Entry: entry(Folder, info.Mode().Perm(), "")}, born: w.tick}
		}
	}
	w.tick++
	born, made := w.tick, time.Now()
	if old := w.entries[e.Path]; old != nil && old.Kind == e.Kind {
		born, made = old.born, old.made
	}
	e.Mtime = time.Now().UnixNano()
	w.entries[e.Path] = &node{Listed: e, data: data, born: born, made: made}
	return nil
}

// put implements View.
func (w *world) put(ctx context.Context, name string, e history.Entry, content io.Reader) error {
	if have := w.kind(name); have != Nothing && (e.Kind == Nothing || (e.Kind == Folder) != (have == Folder)) {
		if err := w.Remove(ctx, name); err != nil {
			return err
		}
	}
	switch {
	case e.Kind == Folder && w.kind(name) == Folder:
		return w.Chmod(ctx, name, e.Mode)
	case e.Kind == Folder:
		return w.Mkdir(ctx, name, e.Mode)
	case e.Kind == Symlink:
		return w.Symlink(ctx, e.Target, name)
	case e.Kind == File:
		return w.WriteFile(ctx, name, e.Mode, content)
	}
	return nil
}

func (w *world) WriteFile(_ context.Context, name string, mode fs.FileMode, content io.Reader) error {
	if w.kind(name) == Folder {
		return errors.New("it is a folder")
	}
	data, err := io.ReadAll(content)
	return errors.Join(err, w.set(Listed{Path: name, Entry: entry(File, mode, "")}, data))
}

func (w *world) Symlink(_ context.Context, target, name string) error {
	if w.kind(name) == Folder {
		return errors.New("it is a folder")
	}
	return w.set(Listed{Path: name, Entry: entry(Symlink, 0o777, target)}, nil)
}

func (w *world) Mkdir(_ context.Context, name string, mode fs.FileMode) error {
	if w.kind(name) != Nothing {
		return fs.ErrExist
	}
	kind := Folder
	if _, shown := w.lower(name); shown {
		kind = Opaque
	}
	return w.set(Listed{Path: name, Entry: entry(kind, mode, "")}, nil)
}

func (w *world) Chmod(_ context.Context, name string, mode fs.FileMode) error {
	if n := w.entries[name]; n != nil {
		n.Mode = mode
		return nil
	}
	info, ok := w.lower(name)
	if !ok {
		return fs.ErrNotExist
	}
	if info.IsDir() {
		return w.set(Listed{Path: name, Entry: entry(Folder, mode, "")}, nil)
	}
	data, err := os.ReadFile(filepath.Join(w.dir, name))
	return errors.Join(err, w.set(Listed{Path: name, Entry: entry(File, mode, "")}, data))
}

// children lists what the agent sees in a folder.
func (w *world) children(dir string) []string {
	seen := map[string]bool{}
	for name := range w.entries {
		if parent(name) == dir {
			seen[name] = true
		}
	}
	list, _ := os.ReadDir(filepath.Join(w.dir, dir))
	for _, e := range list {
		seen[filepath.Join(dir, e.Name())] = true
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(seen)), func(name string) bool { return w.kind(name) == Nothing })
}

func (w *world) Remove(_ context.Context, name string) error {
	switch w.kind(name) {
	case Nothing:
		return fs.ErrNotExist
	case Folder:
		if len(w.children(name)) > 0 {
			return errors.New("it is not empty")
		}
	}
	for at := range w.entries {
		if strings.HasPrefix(at, name+"/") {
			delete(w.entries, at)
		}
	}
	if _, shown := w.lower(name); shown {
		return w.set(Listed{Path: name, Entry: entry(Whiteout, 0, "")}, nil)
	}
	delete(w.entries, name)
	return nil
}

// agent edits in the room, after which the daemon records bases as after a tool call.
func (w *world) agent(name, data string, mode fs.FileMode) {
	w.t.Helper()
	must(w.t, w.WriteFile(w.t.Context(), name, mode, strings.NewReader(data)))
	w.record()
}

func (w *world) record() {
	w.t.Helper()
	_, err := w.Record(w.t.Context())
	must(w.t, err)
}

func (w *world) agentRemove(name string) {
	w.t.Helper()
	for _, child := range w.children(name) {
		if w.kind(name) == Folder {
			w.agentRemove(child)
		}
	}
	must(w.t, w.Remove(w.t.Context(), name))
	w.record()
}

func (w *world) agentFolder(name string) {
	w.t.Helper()
	must(w.t, w.Mkdir(w.t.Context(), name, 0o755))
}

// show describes a file for comparison.
func show(kind Kind, mode fs.FileMode, data string) string {
	if kind == Symlink {
		mode = 0
	}
	return fmt.Sprintf("%c %o %s", kind, mode, data)
}

// seen lists what the agent sees.
func (w *world) seen() map[string]string {
	all := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		for _, name := range w.children(dir) {
			kind := w.kind(name)
			if n := w.entries[name]; n != nil {
				all[name] = show(kind, n.Mode, string(n.data)+n.Target)
			} else {
				all[name] = realEntry(w.t, w.dir, name)
			}
			if kind == Folder {
				walk(name)
			}
		}
	}
	walk(".")
	return all
}

// has lists the real folder.
func (w *world) has() map[string]string { return tree(w.t, w.dir) }

func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(at string, _ fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(dir, at); err == nil && name != "." {
			all[name] = realEntry(t, dir, name)
		}
		return err
	}))
	return all
}

func realEntry(t *testing.T, dir, name string) string {
	t.Helper()
	at := filepath.Join(dir, name)
	info, err := os.Lstat(at)
	must(t, err)
	switch {
	case info.IsDir():
		return show(Folder, info.Mode().Perm(), "")
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(at)
		must(t, err)
		return show(Symlink, 0, target)
	}
	data, err := os.ReadFile(at)
	must(t, err)
	return show(File, info.Mode().Perm(), string(data))
}

func (w *world) compute(paths ...string) *Changes {
	w.t.Helper()
	var sel Selection
	for _, p := range paths {
		sel.Picks = append(sel.Picks, Pick{Path: p})
	}
	out, err := w.Compute(w.t.Context(), sel, true)
	must(w.t, err)
	return out
}

// accept accepts paths. All must succeed.
func (w *world) accept(paths ...string) *Report {
	w.t.Helper()
	report := w.try(Selection{}, paths...)
	if len(report.Left) > 0 {
		w.t.Errorf("left: %+v", report.Left)
	}
	return report
}

func (w *world) try(sel Selection, paths ...string) *Report {
	w.t.Helper()
	for _, p := range paths {
		sel.Picks = append(sel.Picks, Pick{Path: p})
	}
	sel.Marked = true
	report, err := w.Accept(w.t.Context(), sel)
	must(w.t, err)
	return report
}

func (w *world) reject(picks ...Pick) *Report {
	w.t.Helper()
	report, err := w.Reject(w.t.Context(), Selection{Picks: picks})
	must(w.t, err)
	return report
}

func equalMaps(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s: %q is %q, want %q", what, name, got[name], want[name])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %q is %q, want nothing", what, name, got[name])
		}
	}
}
