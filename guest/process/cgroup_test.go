//go:build linux

package process

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/guest/process/processtest"
)

// grouped is a spot whose children have groups.
type grouped struct {
	spot
	groups string
}

func (g grouped) Cgroup() string { return g.groups }

// One group serves a place's children one after another, none of whom has anything to do with
// what the others left. When the place ends, nothing is left of it.
func TestGroupsAreKept(t *testing.T) {
	dir := processtest.Cgroup(t)
	if dir == "" {
		return
	}
	k, err := NewKeeper(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	place := grouped{spot{entered: new(atomic.Int32), ended: make(chan struct{})}, dir}
	start := func(script string) *Child {
		t.Helper()
		c, err := k.Start(Spec{Args: []string{"/bin/sh", "-c", script}, Dir: "/", Files: [3]uintptr{null.Fd(), null.Fd(), null.Fd()}, Place: place})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	run := func(script string) *Child {
		t.Helper()
		c := start(script)
		<-c.Done()
		c.Release()
		return c
	}
	groups := func() []string {
		t.Helper()
		paths, err := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
		if err != nil {
			t.Fatal(err)
		}
		return paths
	}

	first := run("exit 0")
	kept := groups()
	if len(kept) != 1 {
		t.Fatalf("%d groups are kept, not one", len(kept))
	}
	next := start("exec sleep 1000")
	if now := groups(); len(now) != 1 || now[0] != kept[0] {
		t.Errorf("the next child is in %q, not in %q", now, kept)
	}
	// Who had the group before has no hold on the next.
	first.Kill()
	if got := first.Processes(); len(got) != 0 {
		t.Errorf("a child that is gone has the processes %v", got)
	}
	if got := next.Processes(); len(got) != 1 || got[0] != next.PID() {
		t.Errorf("it has the processes %v instead of %d", got, next.PID())
	}
	other := run("exit 0") // beside it
	if got := groups(); len(got) != 2 {
		t.Errorf("%d groups instead of the child's and one that is kept", len(got))
	}
	other.Release()
	next.Release() // kills it
	if s := next.Status(); !s.Signaled() {
		t.Errorf("status %v of what was killed", s)
	}
	if got := groups(); len(got) != 1 || got[0] == kept[0] {
		t.Errorf("one that was killed in is kept: %q", got)
	}
	run("sleep 1000 & exit 0") // and leaves something
	if got := groups(); len(got) != 0 {
		t.Errorf("a group with something left in it is kept: %q", got)
	}
	if run("exit 0"); len(groups()) != 1 {
		t.Errorf("%d groups are kept, not one", len(groups()))
	}

	close(place.ended)
	for end := time.Now().Add(30 * time.Second); len(groups()) > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if got := groups(); len(got) != 0 {
		t.Errorf("of a place that has ended there is %q", got)
	}
}
