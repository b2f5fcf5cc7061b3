package mounts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/history"
	"osaurus-sandbox/history/review"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/prompts"
	"osaurus-sandbox/tools"
)

// left lists what a review leaves and why: "Makefile: …".
func left(list []review.Change) (left, taken []string) {
	for _, c := range list {
		if c.Left != "" {
			left = append(left, c.Path)
		} else {
			taken = append(taken, c.Path)
		}
	}
	return left, taken
}

func paths(list []review.Outcome) string {
	var all []string
	for _, o := range list {
		all = append(all, o.Path)
	}
	return strings.Join(all, " ")
}

// What may run on this computer is accepted only if it is named, or if all that is marked is.
func TestMarked(t *testing.T) {
	r := newRig(t)
	r.mount(r.alice, Mount{})
	r.set(func() { r.changes = []guest.MountChange{changed("a.txt"), changed("Makefile"), changed("b.txt")} })
	all, err := r.Review(t.Context(), "alice", "app", review.Selection{}, false)
	if l, taken := left(all.Changes); err != nil || fmt.Sprint(l, taken) != "[Makefile] [a.txt b.txt]" {
		t.Fatal(l, taken, err)
	}
	if all, _ = r.Review(t.Context(), "alice", "app", review.Selection{Marked: true}, false); len(all.Changes) != 3 || all.Changes[0].Left != "" {
		t.Errorf("%+v", all)
	}
	report, err := r.Decide(t.Context(), "alice", "app", review.Selection{}, false, "me")
	if err != nil || paths(report.Done) != "a.txt b.txt" || paths(report.Left) != "Makefile" || !strings.Contains(report.Left[0].Reason, "--yes-marked") {
		t.Fatalf("%+v, %v", report, err)
	}
	if _, err := os.Stat(r.app + "/Makefile"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is marked was written: %v", err)
	}
	pick := func(d review.Selection, paths ...string) review.Selection {
		for _, p := range paths {
			d.Picks = append(d.Picks, review.Pick{Path: p})
		}
		return d
	}
	if report, err = r.Decide(t.Context(), "alice", "app", pick(review.Selection{}, "Makefile"), false, "me"); err != nil || paths(report.Done) != "Makefile" {
		t.Fatalf("named: %+v, %v", report, err)
	}
	if text, err := os.ReadFile(r.app + "/Makefile"); err != nil || string(text) != "the agent's Makefile\n" {
		t.Errorf("%q, %v", text, err)
	}
	if told := r.told(); !strings.HasSuffix(told, "review.accepted of app by me; review.accepted of app by me") {
		t.Error(told)
	}
	// Only what a person has seen.
	r.set(func() { r.changes = []guest.MountChange{changed("c.txt")} })
	report, err = r.Decide(t.Context(), "alice", "app", review.Selection{Picks: []review.Pick{{Path: "c.txt", ID: "another"}}}, false, "me")
	if err != nil || len(report.Done) != 0 || paths(report.Left) != "c.txt" {
		t.Errorf("another than was seen: %+v, %v", report, err)
	}
	var out bytes.Buffer
	if err := r.Read(t.Context(), "alice", "app", "c.txt", true, &out); err != nil || out.String() != "the agent's c.txt\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := syscall.Mkfifo(r.app+"/c.txt", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Read(t.Context(), "alice", "app", "c.txt", false, &out); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a FIFO was read: %v", err)
	}
}

func TestOnlyReviewedMountsAreReviewed(t *testing.T) {
	r := newRig(t)
	r.mount(r.alice, Mount{Mode: "write"})
	if _, err := r.Review(t.Context(), "alice", "app", review.Selection{}, false); fault.KindOf(err) != fault.Rejected {
		t.Error(err)
	}
	if _, err := r.Review(t.Context(), "bob", "app", review.Selection{}, false); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another agent's mount: %v", err)
	}
}

// Changes that nobody has decided about are not discarded unless a person says so.
func TestUnmountWithChanges(t *testing.T) {
	r := newRig(t)
	r.mount(r.alice, Mount{})
	r.start(r.alice)
	r.set(func() { r.changes = []guest.MountChange{changed("a.txt")} })
	if err := r.Unmount(t.Context(), "alice", "app", false, "me"); fault.KindOf(err) != fault.Rejected || !strings.Contains(fault.AdviceOf(err), "--force") {
		t.Error(err)
	}
	r.want("alice/app: mounted")
	if err := r.Unmount(t.Context(), "alice", "app", true, "me"); err != nil || len(r.forgot) != 1 {
		t.Error(err, r.forgot)
	}
	if heads, err := os.ReadDir(r.dir.History() + "/heads"); err != nil || len(heads) > 0 {
		t.Errorf("its trees are still there: %v, %v", heads, err)
	}
	r.mount(r.alice, Mount{})
	if err := r.home.Machine.Stop(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	r.set(func() {
		for _, f := range r.mounted {
			f.end()
		}
	})
	timetest.Eventually(t, "the mount ends with the guest", func() bool { return r.live() == 0 })
	if err := r.Unmount(t.Context(), "alice", "app", false, "me"); err != nil || len(r.forgot) != 1 {
		t.Errorf("%v, %q", err, r.forgot)
	}
}

// Changes that are made while a folder is unmounted keep it mounted.
func TestChangesWhileUnmounting(t *testing.T) {
	r := newRig(t)
	r.mount(r.alice, Mount{})
	r.start(r.alice)
	r.set(func() { r.late = []guest.MountChange{changed("a.txt")} })
	if err := r.Unmount(t.Context(), "alice", "app", false, "me"); fault.KindOf(err) != fault.Rejected || !strings.Contains(fault.AdviceOf(err), "--force") {
		t.Error(err)
	}
	r.want("alice/app: mounted")
	if len(r.forgot) != 0 {
		t.Errorf("forgot %q", r.forgot)
	}
	if list, err := r.Review(t.Context(), "alice", "app", review.Selection{}, false); err != nil || len(list.Changes) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// A checkpoint has what the agent changed, and notes the versions that its changes began with.
func TestRoots(t *testing.T) {
	r := newRig(t)
	r.write("a.txt", "before\n")
	r.mount(r.alice, Mount{})
	r.start(r.alice)
	c := changed("a.txt")
	c.Made = mtime(t, r.app+"/a.txt").Add(timetest.Limit)
	r.set(func() { r.changes = []guest.MountChange{c} })
	key := r.entries()[0].historyKey() + "/base"
	base := func() (history.Entry, error) {
		tree, _ := r.History.Head(key)
		return r.History.Find(t.Context(), tree, "a.txt")
	}
	if _, err := base(); fault.KindOf(err) != fault.NotFound {
		t.Fatal(err)
	}
	roots := r.Roots(r.alice.ID)
	if others := r.Roots(r.bob.ID); len(roots) != 1 || len(others) != 0 || roots[0].Folder != "/mnt/app" {
		t.Fatal(roots, others)
	}
	made, err := roots[0].Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.History.Find(t.Context(), made, "a.txt"); err != nil {
		t.Error(err)
	}
	r.write("a.txt", "somebody else\n")
	e, err := base()
	if err != nil {
		t.Fatal(err)
	}
	if text, _, err := r.History.Text(t.Context(), e); err != nil || text != "before\n" {
		t.Errorf("%q, %v", text, err)
	}
	// Without a guest, nothing changes.
	if err := r.home.Machine.Stop(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	r.set(func() {
		for _, f := range r.mounted {
			f.end()
		}
	})
	timetest.Eventually(t, "the mount ends with the guest", func() bool { return r.live() == 0 })
	if again, err := roots[0].Checkpoint(t.Context()); err != nil || again != made {
		t.Errorf("%v, %v", again, err)
	}
}

// An agent says that it is done, and a person accepts what there was then.
func TestSubmit(t *testing.T) {
	r := newRig(t)
	who := tools.Agent{ID: r.alice.ID, Name: r.alice.Name, Home: r.alice.Home()}
	r.mount(r.bob, Mount{})
	if _, err := r.Submit(t.Context(), who, "app", "mine"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another agent's mount: %v", err)
	}
	r.mount(r.alice, Mount{Ask: true})
	submit := func(choice prompts.Choice) (s tools.Submitted, err error) {
		r.set(func() { r.changes = []guest.MountChange{changed("a.txt"), changed("Makefile"), changed("b.txt")} })
		done := make(chan struct{})
		go func() {
			defer close(done)
			s, err = r.Submit(context.Background(), who, "app", "it works now")
		}()
		timetest.Eventually(t, "a person is asked", func() bool { return len(r.Prompts.List()) == 1 })
		p := r.Prompts.List()[0]
		if p.Kind != prompts.KindReview || p.Text != "it works now" || !strings.HasPrefix(p.What, "to write 2 changes (+2, -0 lines) to ") || !strings.Contains(p.What, "1 more are left") {
			t.Errorf("%+v", p)
		}
		// What comes after that was not seen.
		later := changed("b.txt")
		later.Mode = 0o755
		r.set(func() { r.changes = []guest.MountChange{changed("a.txt"), changed("c.txt"), later} })
		if _, _, err := r.Prompts.Choose(t.Context(), p.ID, choice, "me"); err != nil {
			t.Fatal(err)
		}
		<-done
		return s, err
	}
	if s, err := submit(prompts.No); fault.KindOf(err) != fault.UserDenied || s.Accepted != 0 {
		t.Errorf("no: %+v, %v", s, err)
	}
	if list, err := os.ReadDir(r.app); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	s, err := submit(prompts.Yes)
	if err != nil || s.Changes != 3 || !s.Asked || s.Accepted != 1 || len(s.Left) != 2 || s.Left[0].Path != "Makefile" || s.Left[1].Path != "b.txt" {
		t.Errorf("yes: %+v, %v", s, err)
	}
	for path, there := range map[string]bool{"a.txt": true, "b.txt": false, "c.txt": false, "Makefile": false} {
		if _, err := os.Stat(r.app + "/" + path); (err == nil) != there {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// killedRoom is a room whose commands are killed.
type killedRoom struct{ engine.Room }

func (killedRoom) Exec(context.Context, engine.Command) (engine.Process, error) {
	return killedProcess{}, nil
}

type killedProcess struct{ engine.Process }

func (killedProcess) Wait() (engine.Exit, error) { return engine.Exit{Signal: engine.SIGKILL}, nil }

// TestWriterIsKilled: the agent can kill what writes to its mount.
func TestWriterIsKilled(t *testing.T) {
	if err := view(killedRoom{}, "/mnt/app")(t.Context(), "a", history.Entry{Kind: history.File}, strings.NewReader("x")); fault.KindOf(err) != fault.Execution {
		t.Errorf("%v", err)
	}
}
