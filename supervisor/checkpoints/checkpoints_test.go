package checkpoints_test

import (
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/checkpoints"
	"osaurus-sandbox/supervisor/hosttest"
)

// world is a home with an agent alice and its checkpoints.
type world struct {
	*hosttest.Home
	*checkpoints.Checkpoints
	t        testing.TB
	backend  *hosttest.Backend
	mu       sync.Mutex // guards settings
	settings config.History
	alice    agents.Agent
}

func newWorld(t testing.TB) *world {
	return newWorldIn(t, config.Home(filepath.Join(t.TempDir(), "home")))
}

func newWorldIn(t testing.TB, dir config.Home) *world {
	w := &world{t: t, backend: &hosttest.Backend{}, settings: config.Defaults().History}
	w.Home = hosttest.OpenHome(t, dir, w.backend, agents.Options{Record: hosttest.Discard{}})
	t.Cleanup(func() { w.must(w.Home.Close()) })
	w.alice = w.create("alice")
	w.open()
	return w
}

func (w *world) create(name string) agents.Agent {
	w.t.Helper()
	agent, err := w.Agents.Create(w.t.Context(), agents.New{Name: name}, "test")
	w.must(err)
	return agent
}

// open opens the checkpoints, as a daemon does after one that was killed.
func (w *world) open() {
	w.t.Helper()
	kept, err := checkpoints.OpenStore(w.Dir, w.settings)
	w.must(err)
	w.Checkpoints, err = checkpoints.Open(w.t.Context(), checkpoints.Options{
		DB: w.DB, History: kept, Agents: w.Agents, Settings: w.get, Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)),
	})
	w.must(err)
	w.t.Cleanup(w.Checkpoints.Close) // of each, also after w has another
}

// set changes the settings, which background work may read.
func (w *world) set(change func(*config.History)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.settings)
}

func (w *world) get() config.History {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.settings
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) path(name string) string { return filepath.Join(w.Dir.AgentHome("alice"), name) }

// write writes files, given as NAME=CONTENT; "NAME=-" removes one.
func (w *world) write(files ...string) {
	w.t.Helper()
	for _, file := range files {
		name, content, _ := strings.Cut(file, "=")
		if content == "-" {
			w.must(os.RemoveAll(w.path(name)))
			continue
		}
		w.must(os.MkdirAll(filepath.Dir(w.path(name)), 0o700))
		w.must(os.WriteFile(w.path(name), []byte(content), 0o600))
	}
}

// call is a call that writes files.
func (w *world) call(files ...string) {
	w.t.Helper()
	r := w.Begin(w.t.Context(), w.alice, "exec", strings.Join(files, " "))
	w.write(files...)
	if warning := r.End("ok"); warning != "" {
		w.t.Fatal(warning)
	}
}

func (w *world) undo(r checkpoints.Request) (checkpoints.Undone, error) {
	return w.Undo(w.t.Context(), w.alice, r)
}

// holds checks all files of the home.
func (w *world) holds(want ...string) {
	w.t.Helper()
	if got := w.files(); !slices.Equal(got, want) {
		w.t.Errorf("the home holds %q, want %q", got, want)
	}
}

func (w *world) files() []string {
	files := []string{}
	w.must(filepath.WalkDir(w.path(""), func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(w.path(""), path)
		if err != nil || name == "." || name == "plugins" {
			return err
		}
		content := "/"
		if !d.IsDir() {
			data, err := os.ReadFile(path)
			w.must(err)
			content = "=" + string(data)
		}
		files = append(files, name+content)
		return nil
	}))
	return files
}

// calls describes the calls, newest first.
func (w *world) calls() (list []string) {
	w.t.Helper()
	calls, err := w.List(w.t.Context(), w.alice, 100)
	w.must(err)
	for _, c := range calls {
		text := fmt.Sprintf("%d %s %s %s %s", c.Number, c.Tool, c.Counts.Files(), c.Counts.Lines(), c.Note())
		list = append(list, strings.Join(strings.Fields(text), " "))
	}
	return list
}

func (w *world) wantCalls(want ...string) {
	w.t.Helper()
	if got := w.calls(); !slices.Equal(got, want) {
		w.t.Errorf("the calls are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func wantFault(t testing.TB, err error, kind fault.Kind, words string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || !strings.Contains(err.Error()+fault.AdviceOf(err), words) {
		t.Errorf("%v (%s; %s), want %s with %q", err, fault.KindOf(err), fault.AdviceOf(err), kind, words)
	}
}

func TestUndo(t *testing.T) {
	w := newWorld(t)
	w.call("a=1\n", "b=1\n")
	w.call("a=1\n2\n", "src/c=new\n")
	w.call()
	w.wantCalls("3 exec", "2 exec +1 ~1 +2 -0", "1 exec +2 +2 -0")

	u, err := w.undo(checkpoints.Request{}) // the last that changed something
	w.must(err)
	if u.Of.Number != 2 || u.Call.Number != 4 || u.Changed != 3 {
		t.Errorf("%+v", u)
	}
	w.holds("a=1\n", "b=1\n")
	_, err = w.undo(checkpoints.Request{}) // and then the one before
	w.must(err)
	w.holds()
	_, err = w.undo(checkpoints.Request{})
	wantFault(t, err, fault.NotFound, "history alice")
	_, err = w.undo(checkpoints.Request{Redo: true})
	w.must(err)
	w.holds("a=1\n", "b=1\n")
	_, err = w.undo(checkpoints.Request{Redo: true})
	w.must(err)
	w.holds("a=1\n2\n", "b=1\n", "src/", "src/c=new\n")
	_, err = w.undo(checkpoints.Request{Redo: true})
	wantFault(t, err, fault.NotFound, "")
	w.wantCalls(
		"7 redo +1 ~1 +2 -0", "6 redo +2 +2 -0",
		"5 undo -2 +0 -2 undone by 6", "4 undo ~1 -1 +0 -2 undone by 7",
		"3 exec", "2 exec +1 ~1 +2 -0", "1 exec +2 +2 -0")

	_, err = w.undo(checkpoints.Request{Call: 4}) // by its number, an undo is a call as others
	wantFault(t, err, fault.Rejected, "nothing is left")
	_, err = w.undo(checkpoints.Request{Call: 3})
	wantFault(t, err, fault.Rejected, "changed nothing")
	_, err = w.undo(checkpoints.Request{Call: 99})
	wantFault(t, err, fault.NotFound, "history")
}

// What other calls changed stays. Files that were changed again are not touched without a word.
func TestUndoOfAnEarlierCall(t *testing.T) {
	w := newWorld(t)
	w.call("a=1", "dir/x=1", "dir/y=1", "old=1")
	w.call("a=2", "dir/x=2", "new/f=2", "old=-")
	w.call("dir/y=3", "new/g=3", "other=3")
	_, err := w.undo(checkpoints.Request{Call: 2})
	w.must(err)
	w.holds("a=1", "dir/", "dir/x=1", "dir/y=3", "new/", "new/g=3", "old=1", "other=3")
	_, err = w.undo(checkpoints.Request{Redo: true})
	w.must(err)
	w.call("a=5")
	before := w.files()
	_, err = w.undo(checkpoints.Request{Call: 2})
	wantFault(t, err, fault.Rejected, "--all-since")
	wantFault(t, err, fault.Rejected, "changed again since: a")
	if after := w.files(); !slices.Equal(before, after) {
		t.Errorf("a refused undo changed %q to %q", before, after)
	}
	_, err = w.undo(checkpoints.Request{Call: 2, Paths: []string{"dir"}})
	w.must(err)
	w.holds("a=5", "dir/", "dir/x=1", "dir/y=3", "new/", "new/f=2", "new/g=3", "other=3")
	for _, outside := range []string{"/etc/passwd", "../bob", "/workspace/agents/alicex"} {
		_, err = w.undo(checkpoints.Request{Call: 2, Paths: []string{outside}})
		wantFault(t, err, fault.InvalidArgs, "not in the agent's home")
	}
	_, err = w.undo(checkpoints.Request{Call: 2, AllSince: true, Paths: []string{"/workspace/agents/alice/new"}})
	w.must(err)
	w.holds("a=5", "dir/", "dir/x=1", "dir/y=3", "other=3")
	_, err = w.undo(checkpoints.Request{Call: 2, AllSince: true})
	w.must(err)
	w.holds("a=1", "dir/", "dir/x=1", "dir/y=1", "old=1")
	u, err := w.undo(checkpoints.Request{}) // all later ones are undone
	w.must(err)
	if u.Of.Number != 1 {
		t.Errorf("undid %d", u.Of.Number)
	}
	w.holds()
}

// What changes between calls is a row of its own. Calls that overlap have each other's changes.
func TestWhoChangedIt(t *testing.T) {
	w := newWorld(t)
	w.call("a=1\n")
	w.wantCalls("1 exec +1 +1 -0")
	w.write("log=by a job\n")
	w.call("b=1\n")
	w.wantCalls("3 exec +1 +1 -0", "2 +1 +1 -0", "1 exec +1 +1 -0")

	long := w.Begin(t.Context(), w.alice, "long", "")
	w.call("during=1\n")
	_, err := w.undo(checkpoints.Request{})
	wantFault(t, err, fault.Rejected, "these are still running: long")
	w.write("end=1\n")
	long.End("timeout")
	w.wantCalls("5 exec +1 +1 -0", "4 long +2 +2 -0 timeout", "3 exec +1 +1 -0", "2 +1 +1 -0", "1 exec +1 +1 -0")
	list := []string{}
	for c, err := range w.Diff(t.Context(), w.alice, checkpoints.Range{First: 2, Last: 4}, nil) {
		w.must(err)
		list = append(list, string(c.What)+" "+c.Path)
	}
	if want := []string{"added b", "added during", "added end", "added log"}; !slices.Equal(list, want) {
		t.Errorf("%q", list)
	}
	w.write("now=1\n")
	list = nil
	for c, err := range w.Diff(t.Context(), w.alice, checkpoints.Range{First: 5, Last: checkpoints.Now}, []string{"now"}) {
		w.must(err)
		list = append(list, string(c.What)+" "+c.Path)
	}
	if want := []string{"added now"}; !slices.Equal(list, want) {
		t.Errorf("until now: %q", list)
	}
}

// The checkpoint after a call is made without anybody asking.
func TestAfter(t *testing.T) {
	w := newWorld(t)
	w.call("a=1")
	timetest.Eventually(t, "the call has its checkpoint", func() bool {
		n, err := w.DB.Exec(t.Context(), "test", "UPDATE history SET summary = summary WHERE call = 1 AND ended > 0 AND after != 'null'")
		return err == nil && n == 1
	})
}

// A daemon that is killed during a call, or during an undo, is finished by the next.
func TestKilled(t *testing.T) {
	w := newWorld(t)
	w.call("a=1")
	w.Begin(t.Context(), w.alice, "exec", "")
	w.write("a=2")
	timetest.Eventually(t, "its row is written", func() bool {
		n, err := w.DB.Exec(t.Context(), "test", "UPDATE history SET tool = tool WHERE call = 2")
		return err == nil && n == 1
	})
	w.open()
	w.wantCalls("2 exec ~1 +1 -1 interrupted", "1 exec +1 +1 -0")
	_, err := w.undo(checkpoints.Request{})
	w.must(err)
	w.holds("a=1")

	// An undo writes its row, then the store's journal, then files.
	_, err = w.DB.Exec(t.Context(), "test", "UPDATE history SET ended = 0, after = 'null', changed = 0, counts = 'null' WHERE call = 3")
	w.must(err)
	w.open()
	w.wantCalls("3 undo ~1 +1 -1 interrupted", "2 exec ~1 +1 -1 undone by 3", "1 exec +1 +1 -0")
}

// A call that ends while the daemon does is whole, and what comes later is not its own.
func TestEndsWithTheDaemon(t *testing.T) {
	w := newWorld(t)
	r := w.Begin(t.Context(), w.alice, "exec", "")
	w.write("a=1")
	w.Checkpoints.Close()
	r.End("canceled")
	w.write("mine=1")
	w.open()
	w.wantCalls("1 exec +1 +1 -0 canceled")
	_, err := w.undo(checkpoints.Request{})
	w.must(err)
	w.holds("mine=1")
}

// Programs that have files open that would change are named.
func TestOpenFiles(t *testing.T) {
	w := newWorld(t)
	w.call("log=1", "other=1")
	p, err := w.Agents.Exec(t.Context(), "alice", engine.Command{Args: []string{"true"}})
	w.must(err)
	_, err = p.Wait()
	w.must(err)
	w.backend.Opened = []string{"/workspace/agents/alice/kept"}
	_, err = w.undo(checkpoints.Request{Paths: []string{"other"}})
	w.must(err)
	w.backend.Opened = []string{"/workspace/agents/alice/log (deleted)", "/workspace/agents/alice"}
	_, err = w.undo(checkpoints.Request{})
	wantFault(t, err, fault.Rejected, "sleep 1000 (process 100) has log")
	w.holds("log=1")
	w.backend.Guest().Mute(true)
	_, err = w.undo(checkpoints.Request{})
	wantFault(t, err, fault.Timeout, "--force")
	_, err = w.undo(checkpoints.Request{Force: true})
	w.must(err)
	w.holds()
	w.backend.Guest().Mute(false)
}

// The oldest checkpoints are deleted first, and their calls say so.
func TestPrune(t *testing.T) {
	w := newWorld(t)
	random := rand.NewChaCha8([32]byte{1})
	block := make([]byte, 1<<19)
	w.set(func(h *config.History) { h.MaxMB = 16 })
	for i := range 40 {
		_, _ = random.Read(block)
		w.call("big="+string(block), fmt.Sprintf("small%d=x", i%3))
		timetest.Eventually(t, "there is room", func() bool {
			size, err := w.History.Used()
			return err == nil && size < 15<<20
		})
	}
	_, err := w.undo(checkpoints.Request{Call: 1})
	wantFault(t, err, fault.Unavailable, "deleted to make room")
	_, err = w.undo(checkpoints.Request{Call: 39, AllSince: true})
	w.must(err)
	if damaged, _, err := w.Verify(t.Context()); err != nil || len(damaged) > 0 {
		t.Errorf("%v %v", damaged, err)
	}
}

// A home that cannot be kept does not keep calls from running.
func TestWithoutRoom(t *testing.T) {
	w := newWorld(t)
	w.set(func(h *config.History) { h.MaxMB = 1 }) // which holds at once
	block := make([]byte, 2<<20)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(block)
	w.write("big=" + string(block))
	r := w.Begin(t.Context(), w.alice, "exec", "")
	if warning := r.End("ok"); warning == "" {
		t.Error("nobody is told that the call cannot be undone")
	}
	w.wantCalls("1 exec no checkpoint")
	_, err := w.undo(checkpoints.Request{Call: 1})
	wantFault(t, err, fault.Unavailable, "history.maxMB")
	w.set(func(h *config.History) { h.Enabled = false })
	if warning := w.Begin(t.Context(), w.alice, "exec", "").End("ok"); warning != "" {
		t.Error(warning)
	}
}

// A flipped byte is found, with the calls that it hurts.
func TestVerify(t *testing.T) {
	w := newWorld(t)
	w.call("fine=1")
	w.call("sub/hurt=precious")
	w.calls()
	flipped := false
	w.must(filepath.WalkDir(w.Dir.History(), func(path string, d fs.DirEntry, err error) error {
		if data, _ := os.ReadFile(path); string(data) == "precious" {
			flipped = true
			return errorsOf(os.Chmod(path, 0o600), os.WriteFile(path, []byte("preciouS"), 0o600))
		}
		return err
	}))
	for range 2 { // what is damaged is moved away, and then missing
		objects, calls, err := w.Verify(t.Context())
		if err != nil || !flipped || len(objects) != 1 || len(calls) != 1 || !strings.HasPrefix(calls[0], "alice: call 2: sub/hurt: ") {
			t.Errorf("%v %v %v %v", flipped, objects, calls, err)
		}
	}
	_, err := w.undo(checkpoints.Request{}) // which does not need it: what is there is stored again
	w.must(err)
	w.holds("fine=1")
}

func errorsOf(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestFork(t *testing.T) {
	w := newWorld(t)
	w.call("a=1", "dir/b=1")
	w.call("a=2")
	bob, carl := w.create("bob"), w.create("carl")
	first, err := w.HomeAfter(t.Context(), w.alice, 1)
	w.must(err)
	w.must(w.Fork(t.Context(), w.alice, bob, history.Digest{}, nil))
	w.must(w.Fork(t.Context(), w.alice, carl, first, nil))
	for name, want := range map[config.AgentName]string{"bob": "2", "carl": "1"} {
		if data, err := os.ReadFile(filepath.Join(w.Dir.AgentHome(name), "a")); string(data) != want {
			t.Errorf("%s has %q, %v", name, data, err)
		}
	}
	w.must(os.WriteFile(filepath.Join(w.Dir.AgentHome("bob"), "plugins", "x"), nil, 0o600))
	wantFault(t, w.Fork(t.Context(), w.alice, bob, history.Digest{}, nil), fault.Rejected, "empty")
}

// The rows of an agent go with it, and stay when it is renamed.
func TestAgentsGo(t *testing.T) {
	w := newWorld(t)
	w.call("a=1")
	w.wantCalls("1 exec +1 +1 -0")
	renamed, err := w.Agents.Rename(t.Context(), "alice", "anna", "test")
	w.must(err)
	if list, err := w.List(t.Context(), renamed, 10); err != nil || len(list) != 1 {
		t.Errorf("%v %v", list, err)
	}
	keys := []string{"mount/" + string(renamed.ID) + "/app/upper", "mount/nobody/app/upper", "home/nobody"}
	dir, err := os.OpenRoot(t.TempDir())
	w.must(err)
	defer dir.Close()
	for _, key := range keys {
		_, err := w.History.Checkpoint(t.Context(), key, dir)
		w.must(err)
	}
	_, err = w.Agents.Delete(t.Context(), "anna", true, "test")
	w.must(err)
	w.Forget(renamed.ID)
	has := func(key string) bool { _, there := w.History.Head(key); return there }
	if has(keys[0]) || has("home/"+string(renamed.ID)) || !has(keys[1]) {
		t.Error("a deleted agent has checkpoints, or others have none")
	}
	w.open()
	if has(keys[1]) || has(keys[2]) {
		t.Error("agents that were deleted before have checkpoints")
	}
	if list, err := w.List(t.Context(), renamed, 10); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
}

// Random calls, undos and redos agree with copies of all files.
func TestAgainstCopies(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(t)
		random := rand.New(rand.NewPCG(seed, 7))
		names := []string{"a", "b", "d/a", "d/b", "d/e/f", "g"}
		states := [][]string{w.files()} // states[n] is before call n+1
		for range 25 {
			now := states[len(states)-1]
			switch random.IntN(4) {
			case 0:
				call := 1 + random.IntN(len(states))
				if call == len(states) {
					continue
				}
				_, err := w.undo(checkpoints.Request{Call: int64(call), AllSince: true})
				want := states[call-1]
				if slices.Equal(now, want) || fault.KindOf(err) == fault.Rejected {
					wantFault(t, err, fault.Rejected, "")
					continue
				}
				w.must(err)
				w.holds(want...)
			default:
				edits := map[string]string{}
				for range random.IntN(4) {
					edits[names[random.IntN(len(names))]] = []string{"-", "1", "2", "3\n4"}[random.IntN(4)]
				}
				var files []string
				for _, name := range slices.Sorted(maps.Keys(edits)) {
					files = append(files, name+"="+edits[name])
				}
				w.call(files...)
			}
			states = append(states, w.files())
			w.calls()
		}
	}
}

// A call's checkpoint of a home of 1,000 files that did not change, and finding these files.
func BenchmarkUnchanged(b *testing.B) {
	w := newWorld(b)
	for i := range 1000 {
		w.write(fmt.Sprintf("d%d/f%d=x", i/50, i))
	}
	w.call()
	time.Sleep(2 * time.Second) // files that were just written are read again
	w.call()
	w.calls()
	b.Run("checkpoint", func(b *testing.B) {
		for b.Loop() {
			w.Begin(b.Context(), w.alice, "exec", "").End("ok")
		}
	})
	b.Run("walk", func(b *testing.B) {
		for b.Loop() {
			_ = filepath.Walk(w.path(""), func(string, fs.FileInfo, error) error { return nil })
		}
	})
}
