package mounts

import (
	"os"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/prompts"
	"osaurus-sandbox/tools"
)

// A mount waits for the room of its agent, follows it into the next guest, and ends.
func TestLife(t *testing.T) {
	r := newRig(t)
	m := r.mount(r.alice, Mount{})
	if m.Name != "app" || m.At != "/mnt/app" || m.Mode != guest.MountReview || m.State != Waiting || !m.Until.IsZero() {
		t.Errorf("%+v", m)
	}
	r.start(r.bob)
	r.want("alice/app: waiting")
	r.start(r.alice)
	r.want("alice/app: mounted")
	// At once if the room is there, and for two agents at once.
	r.mount(r.bob, Mount{Name: "theirs", Mode: "read"})
	r.want("alice/app: mounted, bob/theirs: mounted")
	if err := r.home.Machine.Stop(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	r.set(func() {
		for _, f := range r.mounted {
			f.end()
		}
	})
	timetest.Eventually(t, "the mounts end with the guest", func() bool { return r.states() == "alice/app: waiting, bob/theirs: waiting" })
	r.start(r.alice)
	r.want("alice/app: mounted, bob/theirs: waiting")

	r.set(func() { r.busy = errBusy })
	if err := r.Unmount(t.Context(), "alice", "app", false, "me"); err != errBusy {
		t.Errorf("busy: %v", err)
	}
	r.want("alice/app: mounted, bob/theirs: waiting")
	if err := r.Unmount(t.Context(), "alice", r.app, true, "me"); err != nil || r.live() != 0 {
		t.Errorf("%v, %d live", err, r.live())
	}
	if len(r.forgot) != 1 || !strings.HasPrefix(r.forgot[0], "agent-alice/app.") {
		t.Errorf("forgot %q", r.forgot)
	}
	if err := r.Unmount(t.Context(), "alice", "app", true, "me"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("twice: %v", err)
	}
	if told := r.told(); told != "mount.made of app by me; mount.made of theirs by me; mount.ended of app by me" {
		t.Error(told)
	}
}

// A command that comes while a folder is being unmounted does not mount it again.
func TestCommandDuringUnmount(t *testing.T) {
	r := newRig(t)
	r.start(r.alice)
	r.mount(r.alice, Mount{})
	called := false
	r.during = func() {
		if called = true; r.Lost(r.alice.ID) {
			t.Error("the mount counts as lost")
		}
	}
	if err := r.Unmount(t.Context(), "alice", "app", false, "me"); err != nil || !called {
		t.Errorf("%v, %v", err, called)
	}
}

// The mounts of a room that ended are there again in the one that follows.
func TestRoomEnds(t *testing.T) {
	r := newRig(t)
	r.mount(r.alice, Mount{})
	r.start(r.alice)
	r.start(r.bob)
	r.mount(r.bob, Mount{Name: "theirs"})
	r.set(func() {
		for _, f := range r.mounted {
			f.end()
		}
	})
	timetest.Eventually(t, "the mounts end", func() bool { return r.states() == "alice/app: waiting, bob/theirs: waiting" })
	r.start(r.alice)
	r.want("alice/app: mounted, bob/theirs: waiting")
	refused := fault.Newf(fault.Execution, "mount", "theirs", "no /dev/fuse")
	r.set(func() { r.refuse = refused })
	r.start(r.bob)
	r.set(func() { r.refuse = nil })
	r.start(r.bob) // not at every call
	r.want("alice/app: mounted, bob/theirs: failed")
}

func TestClashes(t *testing.T) {
	r := newRig(t)
	r.mount(r.alice, Mount{})
	for _, n := range []Mount{
		{Folder: r.app},
		{Folder: r.app, Name: "other"},
		{Folder: r.app + "/sub", Name: "other"},
		{Folder: r.rules.Person + "/.config/app", Name: "APP", At: "/mnt/x"},
		{Folder: r.rules.Person + "/.config/app", Name: "other", At: "/mnt/app/x"},
	} {
		if _, err := r.Mounts.Mount(t.Context(), "alice", n, "me"); fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
			t.Errorf("%+v: %v", n, err)
		}
	}
	r.want("alice/app: waiting")
	dirs := t.TempDir()
	for i := range maxPerAgent {
		dir := dirs + "/" + string(rune('a'+i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Mounts.Mount(t.Context(), "alice", Mount{Folder: dir}, "me"); (err != nil) != (i == maxPerAgent-1) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// A mount that cannot be made is not there afterwards; one that cannot be made again says why.
func TestTrouble(t *testing.T) {
	r := newRig(t)
	r.mount(r.bob, Mount{})
	r.start(r.alice)
	refused := fault.Newf(fault.Execution, "mount", "app", "no /dev/fuse")
	r.set(func() { r.refuse = refused })
	if _, err := r.Mounts.Mount(t.Context(), "alice", Mount{Folder: r.app}, "me"); err != refused {
		t.Error(err)
	}
	r.want("bob/app: waiting")
	r.start(r.bob)
	r.want("bob/app: failed")
	r.set(func() { r.refuse = nil })

	r.mount(r.alice, Mount{})
	r.want("alice/app: mounted, bob/app: failed")
	if err := os.Rename(r.app, r.app+".away"); err != nil {
		t.Fatal(err)
	}
	r.want("alice/app: gone, bob/app: gone")
	if err := os.Mkdir(r.app, 0o700); err != nil {
		t.Fatal(err)
	}
	r.want("alice/app: gone, bob/app: gone")
	list, _ := r.List("alice")
	if len(list) != 1 || fault.AdviceOf(list[0].Trouble) == "" {
		t.Errorf("%+v", list)
	}
}

// What is kept is there again in the next daemon, also after one that was killed. The rest is not.
func TestKept(t *testing.T) {
	r := newRig(t)
	r.mount(r.alice, Mount{Keep: true, Until: time.Now().Add(time.Hour), Ask: true, At: "/mnt/here", Mode: "write"})
	r.mount(r.bob, Mount{})
	before, _ := r.List("alice")
	r.close()
	r.open()
	r.want("alice/app: waiting")
	after, _ := r.List("alice")
	if before[0] != after[0] {
		t.Errorf("%+v became %+v", before[0], after[0])
	}
	// A killed daemon leaves rows.
	if err := r.insert(t.Context(), Mount{Agent: r.bob.ID, Name: "left", Folder: r.app, At: "/mnt/left", Mode: guest.MountReview}); err != nil {
		t.Fatal(err)
	}
	if err := r.insert(t.Context(), Mount{Agent: r.bob.ID, Name: "over", Folder: r.app, At: "/mnt/over", Mode: guest.MountReview, Keep: true, Until: time.Now().Add(-time.Hour)}); err != nil {
		t.Fatal(err)
	}
	r.close()
	r.open()
	r.want("alice/app: waiting")
	if rows, err := r.rows(t.Context()); err != nil || len(rows) != 1 {
		t.Errorf("%v, %v", rows, err)
	}
	r.start(r.alice)
	r.want("alice/app: mounted")
}

// A mount ends with its time and with its agent, whatever uses it.
func TestEnds(t *testing.T) {
	r := newRig(t)
	r.start(r.alice)
	r.set(func() { r.busy = errBusy })
	for brief := time.Second / 2; ; brief *= 4 { // on a busy host, the time may be over before
		_, err := r.Mount(t.Context(), "alice", Mount{Folder: r.app, Until: time.Now().Add(brief)}, "me")
		if err == nil {
			break
		}
		if fault.KindOf(err) != fault.InvalidArgs || brief > timetest.Limit {
			t.Fatal(err)
		}
	}
	timetest.Eventually(t, "it ends with its time", func() bool {
		r.sweep()
		return r.states() == "" && r.live() == 0
	})
	if len(r.forgot) != 0 {
		t.Errorf("changes were discarded: %q", r.forgot)
	}
	r.mount(r.alice, Mount{Keep: true})
	if _, err := r.Agents.Delete(t.Context(), "alice", false, "me"); err != nil {
		t.Fatal(err)
	}
	r.sweep()
	if r.states() != "" || r.live() != 0 {
		t.Error("it does not end with its agent")
	}
	for _, why := range []string{"its time is over", "the agent was deleted"} { // the background may have ended it
		timetest.Eventually(t, "the end is told: "+why, func() bool { return strings.Contains(r.told(), "mount.ended of app by "+why) })
	}
}

// The end of a mount is at its time, and not before.
func TestExpiryInVirtualTime(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		r := newRig(t)
		r.mount(r.alice, Mount{Until: time.Now().Add(8 * time.Hour)})
		time.Sleep(8*time.Hour - time.Second)
		timetest.Wait()
		r.want("alice/app: waiting")
		time.Sleep(time.Second)
		timetest.Wait()
		r.want("")
	})
}

// A person decides about a folder that an agent asks for.
func TestRequest(t *testing.T) {
	r := newRig(t)
	who := tools.Agent{ID: r.alice.ID, Name: r.alice.Name, Home: r.alice.Home()}
	if _, err := r.Request(t.Context(), who, tools.FolderRequest{Path: r.rules.Person + "/.ssh", Why: "because"}); fault.KindOf(err) != fault.Rejected || len(r.Prompts.Ended()) != 0 {
		t.Errorf("keys: %v, and a person was asked", err)
	}
	for _, path := range []string{r.rules.Person, r.rules.Person + "/nothing", "relative"} { // one answer for all
		_, err := r.Request(t.Context(), who, tools.FolderRequest{Path: path, Why: "because"})
		if want := fault.Newf(fault.Rejected, opMount, path, "this folder cannot be mounted"); fault.KindOf(err) != fault.Rejected || err.Error() != want.Error() {
			t.Errorf("%s: %v", path, err)
		}
	}
	type answer struct {
		m   tools.MountedFolder
		err error
	}
	ask := func(choice prompts.Choice) answer {
		got := make(chan answer, 1)
		go func() {
			m, err := r.Request(t.Context(), who, tools.FolderRequest{Path: r.app, Why: "to build it", Mode: "review", For: time.Hour})
			got <- answer{m, err}
		}()
		timetest.Eventually(t, "a person is asked", func() bool { return len(r.Prompts.List()) == 1 })
		p := r.Prompts.List()[0]
		if p.Kind != prompts.KindFolder || p.What != `to mount "`+r.app+`" in mode review for 1h0m0s` || p.Text != "to build it" {
			t.Errorf("%+v", p)
		}
		if _, _, err := r.Prompts.Choose(t.Context(), p.ID, prompts.Always, "me"); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("an answer for the network: %v", err)
		}
		r.want("")
		if _, taken, err := r.Prompts.Choose(t.Context(), p.ID, choice, "me"); !taken || err != nil {
			t.Errorf("%v, %v", taken, err)
		}
		return <-got
	}
	if a := ask(prompts.No); fault.KindOf(a.err) != fault.UserDenied {
		t.Errorf("no: %+v", a)
	}
	r.want("")
	if a := ask(prompts.Yes); a.err != nil || a.m.Name != "app" || a.m.Path != "/mnt/app" || a.m.Mode != "review" || a.m.Until.IsZero() {
		t.Errorf("yes: %+v", a)
	}
	r.want("alice/app: waiting")
}

// The folder of a mount stays open until the work on its changes has ended, but not forever.
func TestCloseWaits(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		r := newRig(t)
		r.mount(r.alice, Mount{})
		r.mount(r.bob, Mount{})
		list := r.entries()
		root, err := list[0].open()
		if err != nil {
			t.Fatal(err)
		}
		end, err := r.turn(t.Context(), opReview, list[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.turn(t.Context(), opReview, list[1]); err != nil { // and never ends
			t.Fatal(err)
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			r.Mounts.Close()
		}()
		timetest.Wait()
		if _, err := root.Stat("."); err != nil {
			t.Errorf("the folder was closed meanwhile: %v", err)
		}
		end()
		<-closed
		if _, err := root.Stat("."); err == nil {
			t.Error("the folder is still open")
		}
	})
}
