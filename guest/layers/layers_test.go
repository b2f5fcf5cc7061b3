//go:build linux

package layers

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// world is a store with the room of one user, whose root the kernel merges.
type world struct {
	*testing.T
	*Store
	point  string
	random *rand.Rand
	merged int // layers
}

const (
	user = "agent-alice"
	uid  = 2001
)

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount overlays")
	}
	dir := t.TempDir()
	w := &world{
		T: t, Store: &Store{Data: filepath.Join(dir, "rooms"), Base: filepath.Join(dir, "base"), Run: dir, Discard: os.RemoveAll, Own: func(string, uint32) error { return nil }},
		point: filepath.Join(dir, "root"), random: rand.New(rand.NewPCG(seed, 0)),
	}
	for _, dir := range []string{w.Base, w.point, filepath.Join(w.Data, user, "work")} {
		w.must(os.MkdirAll(dir, 0o755))
	}
	for range 40 {
		w.change(w.Base)
	}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) open() *Stack {
	w.Helper()
	old, err := w.Read(user)
	w.must(err)
	st, err := w.Open(user, uid, "")
	w.must(err)
	w.merged += len(old.Lower) - len(st.Lower)
	return st
}

// with mounts the root of a stack, or what a snapshot has, for a moment.
func (w *world) with(lower []ID, upper ID, do func(root string)) {
	w.Helper()
	top, work := w.Path(upper), filepath.Join(w.Data, user, "work")
	if upper == "" {
		top, work = w.TempDir(), w.TempDir()
	}
	if err := Mount(w.point, w.Paths(lower...), top, work); err != nil {
		w.Skipf("no overlays of this file system: %v", err)
	}
	defer func() { w.must(unix.Unmount(w.point, 0)) }()
	do(w.point)
}

// change does something at random to a tree. Most of it fails because of what is there.
func (w *world) change(root string) {
	names := []string{"a", "b", "c", "d"}
	path := func() string {
		parts := []string{root}
		for range 1 + w.random.IntN(3) {
			parts = append(parts, names[w.random.IntN(len(names))])
		}
		return filepath.Join(parts...)
	}
	at, other := path(), path()
	switch w.random.IntN(13) {
	case 0, 1, 2:
		if f, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644); err == nil {
			_, err = fmt.Fprint(f, w.random.Uint64())
			w.must(errors.Join(err, f.Close()))
		}
	case 3, 4:
		_ = os.MkdirAll(at, 0o755)
	case 5:
		_ = os.RemoveAll(at)
	case 6: // leaves an opaque folder
		if os.RemoveAll(at) == nil && os.Mkdir(at, 0o700) == nil {
			_ = os.WriteFile(filepath.Join(at, "a"), []byte("new"), 0o600)
		}
	case 7:
		_ = os.Rename(at, other)
	case 8:
		_ = os.Link(at, other)
	case 9:
		_ = os.Symlink(names[w.random.IntN(len(names))], at)
	case 10:
		_ = unix.Mknod(at, unix.S_IFSOCK|0o600, 0) // opening it waits for nobody
		_ = unix.Lsetxattr(at, "user.osaurus", fmt.Append(nil, w.random.Uint64()), 0)
	case 11:
		_ = os.Lchown(at, 1000+w.random.IntN(3), 1000)
	case 12:
		if info, err := os.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink == 0 {
			_ = os.Chmod(at, fs.FileMode(0o700+w.random.IntN(0o77)))
		}
	}
}

// hidden is between what Diff compares and what it does not: links and extended attributes.
const hidden = " | "

// look describes everything in a tree, as a program in the room sees it.
func (w *world) look(root string) map[string]string {
	w.Helper()
	seen, links := map[string]string{}, map[uint64]string{}
	w.must(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st, name := info.Sys().(*syscall.Stat_t), strings.TrimPrefix(path, root)
		about := fmt.Sprint(info.Mode(), st.Uid, st.Gid)
		if !d.IsDir() {
			if links[st.Ino] == "" {
				links[st.Ino] = name
			}
			about += fmt.Sprint(" ", info.ModTime().UnixNano(), info.Size())
		}
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			about += fmt.Sprintf(" %x", sha256.Sum256(text))
		}
		if target, err := os.Readlink(path); err == nil {
			about += " -> " + target
		}
		about += hidden
		if !d.IsDir() {
			about += fmt.Sprint(st.Nlink, links[st.Ino])
		}
		value := make([]byte, 100)
		if n, err := unix.Lgetxattr(path, "user.osaurus", value); err == nil {
			about += " " + string(value[:n])
		}
		if name != "" {
			seen[name] = about
		}
		return nil
	}))
	return seen
}

// freeze ends the layer that is written to, as a snapshot does.
func (w *world) freeze(st *Stack) {
	st.Freeze()
	w.must(w.Write(user, st))
}

// TestRandomTrees compares merged layers with what the kernel shows of them, and differences with those
// of what it shows. Many merges fail in the middle and are done in part.
func TestRandomTrees(t *testing.T) {
	merged, failed := 0, 0
	for seed := range uint64(12) {
		w := newWorld(t, seed)
		w.Discard = func(path string) error {
			if seed%2 == 0 && w.random.IntN(2) == 0 {
				failed++
				return errors.New("no more")
			}
			return os.RemoveAll(path)
		}
		known := map[string]map[string]string{}
		for n := range 7 {
			st := w.open()
			w.with(st.Lower, st.Upper, func(root string) {
				for range 15 {
					w.change(root)
				}
				known[fmt.Sprint("s", n)] = w.look(root)
			})
			w.freeze(st)
			if w.random.IntN(3) > 0 {
				st.Add(fmt.Sprint("s", n), time.Now())
			} else {
				delete(known, fmt.Sprint("s", n))
			}
			w.must(w.Write(user, st))
		}
		st := w.open()
		var now map[string]string
		w.with(st.Lower, st.Upper, func(root string) {
			for range 15 {
				w.change(root)
			}
			now = w.look(root)
		})
		for round := range 2 {
			for _, s := range st.Snapshots {
				w.with(s.Layers, "", func(root string) { w.same(fmt.Sprint(seed, s.Name, round), w.look(root), known[s.Name]) })
				list, err := w.Diff(st, s)
				if want := differences(known[s.Name], now); err != nil || !slices.Equal(list, want) {
					t.Errorf("seed %d: since %s: %v, want %v (%v)", seed, s.Name, list, want, err)
				}
			}
			w.with(st.Lower, st.Upper, func(root string) { w.same(fmt.Sprint(seed, " now"), w.look(root), now) })
			if round == 0 {
				if len(st.Snapshots) > 0 {
					w.must(st.Delete(st.Snapshots[w.random.IntN(len(st.Snapshots))].Name))
					w.must(w.Write(user, st))
				}
				st = w.open()
			}
		}
		w.Discard = os.RemoveAll
		st = w.open()
		w.with(st.Lower, st.Upper, func(root string) { w.same(fmt.Sprint(seed, " at the end"), w.look(root), now) })
		w.must(w.Sweep())
		merged += w.merged
		have, err := os.ReadDir(filepath.Join(w.Data, folder))
		names := st.all()
		slices.Sort(names)
		if names = slices.Compact(names); len(have) != len(names) {
			t.Errorf("%d folders of %d layers", len(have), len(names))
		}
		w.must(err)
		if t.Failed() {
			return
		}
	}
	if merged < 12 || failed < 6 {
		t.Errorf("only %d layers were merged, %d times in part", merged, failed)
	}
}

func (w *world) same(what string, got, want map[string]string) {
	w.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if got[path] != want[path] {
			w.Errorf("%s: %s is %q, not %q", what, path, got[path], want[path])
		}
	}
	for path := range got {
		if want[path] == "" {
			w.Errorf("%s: %s should not be there: %q", what, path, got[path])
		}
	}
}

// differences is Diff for two looks.
func differences(before, after map[string]string) (list []string) {
	all := maps.Clone(before)
	maps.Copy(all, after)
	cut := func(about string) string { return strings.Split(about, hidden)[0] }
	for _, path := range slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
	}) {
		was, is := before[path], after[path]
		sign, above := "~ ", filepath.Dir(path)
		switch {
		case cut(was) == cut(is) || above != "/" && (!strings.HasPrefix(before[above], "d") || !strings.HasPrefix(after[above], "d")):
			continue // or it is in a folder that was added or deleted
		case was == "":
			sign = "+ "
		case is == "":
			sign, is = "- ", was
		}
		if strings.HasPrefix(is, "d") {
			path += "/"
		}
		list = append(list, sign+path)
	}
	return list
}

// TestStackIsSwitchedAtOnce ends between any two steps of a freeze, and opens what is left.
func TestStackIsSwitchedAtOnce(t *testing.T) {
	w := newWorld(t, 0)
	st := w.open()
	upper := st.Upper
	st.Freeze()
	w.must(w.Sweep()) // killed before the stack was written
	if is := w.open(); is.Upper != upper || len(is.Lower) > 0 {
		t.Errorf("not the old stack: %+v", is)
	}
	w.must(w.Write(user, st))
	w.must(w.Sweep()) // killed before the new upper layer was made
	if is := w.open(); is.Upper != st.Upper || !slices.Equal(is.Lower, []ID{upper}) {
		t.Errorf("not the new stack: %+v", is)
	}
	if w.Changed(st) {
		t.Error("the new layer is not empty")
	}
	w.must(os.Mkdir(w.Path("half"), 0o755)) // a merge that was killed
	w.must(w.Sweep())
	if _, err := os.Stat(w.Path("half")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a layer is left: %v", err)
	}
	w.must(os.WriteFile(filepath.Join(w.Data, user, stackFile), []byte("{"), 0o600))
	if err := w.Sweep(); err == nil {
		t.Error("layers were discarded although a stack cannot be read")
	}
	if _, err := os.Stat(w.Path(st.Upper)); err != nil {
		t.Error(err)
	}
}

// TestSharedLayersStay keeps layers that another room uses.
func TestSharedLayersStay(t *testing.T) {
	w := newWorld(t, 1)
	st := w.open()
	for n := range 3 {
		w.must(os.WriteFile(filepath.Join(w.Path(st.Upper), fmt.Sprint(n)), nil, 0o644))
		w.freeze(st)
		w.must(os.Mkdir(w.Path(st.Upper), 0o755))
	}
	w.must(w.Write("agent-bob", &Stack{Upper: newID(2002), Lower: st.Lower}))
	fork, err := w.Open("agent-bob", 2002, "")
	w.must(err)
	if st = w.open(); len(st.Lower) != 3 {
		t.Errorf("layers were merged that another room has: %+v", st)
	}
	w.must(os.RemoveAll(filepath.Join(w.Data, "agent-bob")))
	frozen := st.Lower
	if st = w.open(); !slices.Equal(st.Lower, frozen[2:]) {
		t.Errorf("not merged: %+v", st)
	}
	for n := range 3 {
		if _, err := os.Stat(filepath.Join(w.Path(frozen[2]), fmt.Sprint(n))); err != nil {
			t.Error(err)
		}
	}
	for _, id := range append(frozen[:2], fork.Upper) {
		if _, err := os.Stat(w.Path(id)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a layer that nobody has is left: %v", err)
		}
	}
}

func TestSnapshotLimits(t *testing.T) {
	st, now := &Stack{Upper: "u"}, time.Now()
	for n := range maxAutomatic {
		st.Add("before-install", now.Add(time.Duration(n-maxAutomatic)*time.Millisecond))
	}
	for n := range maxSnapshots {
		name := fmt.Sprint("s", n)
		if err := st.May(name); err != nil {
			t.Fatal(err)
		}
		st.Add(name, now)
	}
	if err := st.May("more"); fault.KindOf(err) != fault.Rejected {
		t.Errorf("one more: %v", err)
	}
	if err := st.May("s1"); fault.KindOf(err) != fault.Rejected {
		t.Errorf("the same name: %v", err)
	}
	var names []string
	for n := range maxAutomatic + 2 {
		if err := st.May("before-install"); err != nil {
			t.Fatal(err)
		}
		names = append(names, st.Add("before-install", now.Add(time.Duration(n)*time.Millisecond)))
	}
	var kept []string
	for _, s := range st.Snapshots[maxSnapshots:] {
		kept = append(kept, s.Name)
	}
	if want := names[2:]; !slices.Equal(kept, want) {
		t.Errorf("kept %q, not %q", kept, want)
	}
	for len(st.Lower) < maxLower {
		st.Freeze()
	}
	if err := st.May("before-install"); fault.KindOf(err) != fault.Rejected {
		t.Errorf("too many layers: %v", err)
	}
}
