package snapshots_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/snapshots"
	"osaurus-sandbox/supervisor/store"
)

const by = machine.Cause("test")

// world is a home with a disk, agents and snapshots.
type world struct {
	*snapshots.Snapshots
	t    *testing.T
	dir  config.Home
	home *hosttest.Home
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: config.Home(filepath.Join(t.TempDir(), "home"))}
	w.write(w.dir.DataDisk(), "disk 1")
	w.must(os.Truncate(w.dir.DataDisk(), 1<<30))
	w.write(filepath.Join(filepath.Dir(w.dir.DataDisk()), "provisioned.json"), `{"baseDigest": "one"}`)
	w.open()
	for _, name := range []string{"alice", "bob"} {
		w.create(name)
	}
	w.write(w.file("alice"), "alice 1")
	w.write(filepath.Join(w.dir.AgentStates(), "some", "installed.json"), "state 1")
	return w
}

func (w *world) open() {
	w.t.Helper()
	w.home = hosttest.OpenHome(w.t, w.dir, &hosttest.Backend{}, agents.Options{Record: hosttest.Discard{}})
	var err error
	w.Snapshots, err = snapshots.Open(snapshots.Options{Home: w.dir, Agents: w.home.Agents, Machine: w.home.Machine, Record: hosttest.Discard{}})
	w.must(err)
}

func (w *world) close() {
	w.t.Helper()
	w.must(w.home.Close())
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v, advice: %s", err, fault.AdviceOf(err))
	}
}

func (w *world) want(err error, kind fault.Kind) {
	w.t.Helper()
	if fault.KindOf(err) != kind || fault.AdviceOf(err) == "" {
		w.t.Errorf("%v (advice %q), want %s", err, fault.AdviceOf(err), kind)
	}
}

func (w *world) write(path, text string) {
	w.t.Helper()
	w.must(errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
}

func (w *world) create(name string) {
	w.t.Helper()
	_, err := w.home.Agents.Create(w.t.Context(), agents.New{Name: name}, by)
	w.must(err)
}

func (w *world) file(agent string) string {
	return filepath.Join(w.dir.AgentHome(config.AgentName(agent)), "file")
}

// change makes the second state of a home.
func (w *world) change() {
	f, err := os.OpenFile(w.dir.DataDisk(), os.O_WRONLY, 0)
	w.must(err)
	_, err = f.WriteString("disk 2")
	w.must(errors.Join(err, f.Close()))
	w.write(w.file("alice"), "alice 2")
	w.write(filepath.Join(w.dir.AgentStates(), "some", "installed.json"), "state 2")
	_, err = w.home.Agents.Delete(w.t.Context(), "alice", true, by)
	w.must(err)
	_, err = w.home.Agents.Rename(w.t.Context(), "bob", "alice", by)
	w.must(err)
	_, err = w.home.Agents.Set(w.t.Context(), "alice", map[string]string{"limits.processes": "77"}, by)
	w.must(err)
	w.create("bob")
	w.create("carl")
}

// state describes a home that no daemon has.
func state(t *testing.T, dir config.Home) string {
	t.Helper()
	db, err := store.Open(t.Context(), dir.Database())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	saved, err := agents.Save(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, a := range saved.Agents {
		parts = append(parts, fmt.Sprintf("%s=%d,%s,%d", a.Name, a.UID, a.User, a.Settings.Limits.Processes))
	}
	parts = append(parts, fmt.Sprint("remains", saved.Remains))
	return strings.Join(append(parts, contents(dir.DataDisk(), dir.Workspace(), dir.AgentStates())...), " ")
}

func contents(disk, workspace, states string) (parts []string) {
	head := make([]byte, 6)
	f, err := os.Open(disk)
	if err == nil {
		_, err = f.Read(head)
		_ = f.Close()
	}
	file, _ := os.ReadFile(filepath.Join(workspace, "agents/alice/file"))
	list, _ := os.ReadDir(filepath.Join(workspace, "agents"))
	for _, e := range list {
		parts = append(parts, e.Name())
	}
	installed, _ := os.ReadFile(filepath.Join(states, "some/installed.json"))
	return append(parts, string(head), string(file), string(installed), fmt.Sprint(err))
}

// staged returns a home in its second state with the first one staged, and both as state describes
// them.
func staged(t *testing.T) (dir config.Home, first, second string) {
	w := newWorld(t)
	w.must(w.home.Machine.Start(t.Context(), by))
	before := w.home.Machine.Status().StartedAt
	_, err := w.Create(t.Context(), "one", false, nil, by)
	w.must(err)
	if s := w.home.Machine.Status(); s.State != machine.Running || s.StartedAt.Equal(before) {
		t.Errorf("the guest is %s since %v (%v)", s.State, s.StartedAt, before)
	}
	w.close()
	first = state(t, w.dir)
	w.open()
	w.change()
	for range 2 { // the last one counts
		_, err = w.Stage(t.Context(), "one", false, nil)
		w.must(err)
	}
	w.close()
	return w.dir, first, state(t, w.dir)
}

// TestFinish kills a restore after each of its steps, once and twice. The next daemon finishes it.
func TestFinish(t *testing.T) {
	dir, first, second := staged(t)
	if first == second {
		t.Fatal("both states are", first)
	}
	killed := errors.New("killed")
	var steps []string
	try := func(t *testing.T, kills ...string) {
		copied := copyOf(t, dir)
		finish := func(kill string) error {
			db, err := store.Open(t.Context(), copied.Database())
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			return snapshots.FinishUntil(t.Context(), copied, db, func(step string) error {
				if len(kills) == 0 {
					steps = append(steps, step)
				}
				if step == kill {
					return killed
				}
				return nil
			})
		}
		for _, kill := range kills {
			if err := finish(kill); !errors.Is(err, killed) {
				t.Fatalf("%s: %v", kill, err)
			}
		}
		for range 2 { // the second start has nothing to do
			if err := finish(""); err != nil {
				t.Fatal(err)
			}
			if got := state(t, copied); got != first {
				t.Errorf("after %q the state is\n%s, want\n%s", kills, got, first)
			}
		}
		// What was replaced is a snapshot.
		w := &world{t: t, dir: copied}
		w.open()
		defer w.close()
		list, err := w.List()
		if err != nil || len(list) != 2 || list[1].Name != snapshots.Before || list[1].Base != "one" {
			t.Fatalf("the snapshots are %+v, %v", list, err)
		}
		kept := filepath.Join(copied.Snapshots(), snapshots.Before)
		got := contents(filepath.Join(kept, "data.ext4"), filepath.Join(kept, "workspace"), filepath.Join(kept, "agents"))
		if want := contents(dir.DataDisk(), dir.Workspace(), dir.AgentStates()); !slices.Equal(got, want) || len(list[1].Agents) != 3 {
			t.Errorf("after %q %s has %q and %v, want %q", kills, snapshots.Before, got, list[1].Agents, want)
		}
		if len(kills) > 0 {
			return
		}
		_, err = w.Stage(t.Context(), snapshots.Before, false, nil)
		w.must(err)
		w.close()
		if err := finish(""); err != nil {
			t.Fatal(err)
		}
		if got := state(t, copied); got != second {
			t.Errorf("undone, the state is\n%s, want\n%s", got, second)
		}
		w.open()
		fresh, err := w.home.Agents.Create(t.Context(), agents.New{Name: "dora"}, by)
		w.must(err)
		for _, a := range append(w.home.Agents.List(), list[0].Agents...) {
			if a.Name != "dora" && a.UID >= fresh.UID {
				t.Errorf("dora has the uid %d, %s has %d", fresh.UID, a.Name, a.UID)
			}
		}
	}
	try(t)
	if len(steps) < 10 {
		t.Fatalf("the steps are %q", steps)
	}
	slices.Sort(steps)
	for _, step := range slices.Compact(steps) {
		t.Run(step, func(t *testing.T) { try(t, step) })
	}
	t.Run("again and again", func(t *testing.T) {
		try(t, "describe", "aside data.ext4", "place data.ext4", "aside workspace", "place workspace", "agents", "discard", "keep")
	})
}

// copyOf copies a home.
func copyOf(t *testing.T, dir config.Home) config.Home {
	t.Helper()
	to := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(to, 0o700); err != nil {
		t.Fatal(err)
	}
	a, err := os.OpenRoot(string(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := os.OpenRoot(to)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := clone.Tree(t.Context(), a, b, nil); err != nil {
		t.Fatal(err)
	}
	return config.Home(to)
}

func TestSnapshots(t *testing.T) {
	w := newWorld(t)
	defer func() { w.close() }()
	for name, kind := range map[string]fault.Kind{"": fault.InvalidArgs, "../x": fault.InvalidArgs, "A": fault.InvalidArgs, ".x": fault.InvalidArgs, ".restore": fault.InvalidArgs, snapshots.Before: fault.Rejected} {
		_, err := w.Create(t.Context(), name, false, nil, by)
		w.want(err, kind)
		_, err = w.Stage(t.Context(), name, false, nil)
		w.want(err, map[bool]fault.Kind{true: fault.NotFound, false: kind}[name == snapshots.Before])
	}
	var seen []progress.Event
	made, err := w.Create(t.Context(), "a", true, func(e progress.Event) { seen = append(seen, e) }, by)
	w.must(err)
	if info, err := os.Stat(filepath.Join(w.dir.Snapshots(), "a", "data.ext4")); err != nil || info.Size() != 1<<30 || clone.Allocated(info) > 1<<20 || len(made.Agents) != 2 || made.Base != "one" {
		t.Errorf("made %+v, its disk %+v, %v", made, info, err)
	}
	if n := len(seen); n == 0 || !seen[n-1].Finished {
		t.Errorf("progress: %+v", seen)
	}
	_, err = w.Create(t.Context(), "a", true, nil, by)
	w.want(err, fault.Rejected)
	w.want(w.Delete("b", by), fault.NotFound)
	w.want(w.Delete("../a", by), fault.InvalidArgs)

	// Another base.
	w.write(filepath.Join(filepath.Dir(w.dir.DataDisk()), "provisioned.json"), `{"baseDigest": "two"}`)
	_, err = w.Stage(t.Context(), "a", false, nil)
	w.want(err, fault.Rejected)
	_, err = w.Stage(t.Context(), "a", true, nil)
	w.must(err)

	// What is broken is named, and what was unfinished goes.
	w.write(filepath.Join(w.dir.Snapshots(), "b", "manifest.json"), `{"format": 2}`)
	w.write(filepath.Join(w.dir.Snapshots(), "c", "manifest.json"), `{`)
	w.write(filepath.Join(w.dir.Snapshots(), ".new-x", "data.ext4"), "part")
	w.close()
	w.open()
	list, err := w.List()
	if err != nil || len(list) != 3 || list[0].Name != "b" || !list[0].Created.IsZero() || list[2].Name != "a" || list[2].Bytes == 0 {
		t.Errorf("list: %+v, %v", list, err)
	}
	w.must(w.Delete("a", by))
	w.must(w.Delete("b", by))
	if names := w.names(); !slices.Equal(names, []string{".restore", "c"}) {
		t.Errorf("left are %q", names)
	}
}

func (w *world) names() (names []string) {
	list, err := os.ReadDir(w.dir.Snapshots())
	w.must(err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestCancelled leaves nothing of a snapshot or a restore that a person ends.
func TestCancelled(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	w.write(w.file("bob"), strings.Repeat("x", 9<<20))
	_, err := w.Create(t.Context(), "a", true, nil, by)
	w.must(err)
	for what, do := range map[string]func(context.Context, progress.Func) error{
		"create": func(ctx context.Context, report progress.Func) error {
			_, err := w.Create(ctx, "b", true, report, by)
			return err
		},
		"restore": func(ctx context.Context, report progress.Func) error {
			_, err := w.Stage(ctx, "a", false, report)
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		err := do(ctx, func(progress.Event) {
			cancel()
		})
		cancel()
		if err == nil || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
		if names := w.names(); !slices.Equal(names, []string{"a"}) {
			t.Errorf("after %s there are %q", what, names)
		}
	}
	if s := w.home.Machine.Status(); s.State != machine.Stopped {
		t.Errorf("the machine is %s", s.State)
	}
}
