package guesttest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// layerCases check which of a room's files are kept.
func layerCases() []roomCase {
	return []roomCase{{"Reset", resetLayer}, {"Remove", removeRoom}, {"AnotherBase", anotherBase}, {"Restart", restartGuest}}
}

// mark leaves a file in each place of a room.
func mark(ctx context.Context, t *testing.T, a *agent) {
	t.Helper()
	if out, exit := a.asRoot(ctx, t, "echo layer > /etc/mark"); exit.Status() != 0 {
		t.Fatal(out)
	}
	if out, exit := a.run(ctx, t, "echo home > mark; echo heavy > .venv/mark; echo tmp > /tmp/mark"); exit.Status() != 0 {
		t.Fatal(out)
	}
}

func marks(ctx context.Context, t *testing.T, a *agent) string {
	t.Helper()
	out, _ := a.run(ctx, t, "cat mark .venv/mark /etc/mark /tmp/mark 2>/dev/null")
	return strings.Join(strings.Fields(out), " ")
}

func resetLayer(ctx context.Context, t *testing.T, alice, bob *agent) {
	mark(ctx, t, bob)
	mark(ctx, t, alice)
	p := bob.begin(ctx, t, "sleep 1000")
	if err := bob.suite.Client.ResetRoom(ctx, bob.User); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a running command: %v", err)
	}
	if !bob.ensure(ctx, t) {
		t.Error("the room outlived its reset")
	}
	if got := marks(ctx, t, bob); got != "home" {
		t.Errorf("after a reset: %s", got)
	}
	if got := marks(ctx, t, alice); got != "home heavy layer tmp" {
		t.Errorf("alice: %s", got)
	}
	// Discarded files count until they are deleted in the background.
	eventually(ctx, t, func() bool {
		use, err := bob.suite.Client.RoomUsages(ctx, bob.User)
		return err == nil && use[0].DiskFiles < 30
	})
}

func removeRoom(ctx context.Context, t *testing.T, _, bob *agent) {
	c := bob.suite.Client
	mark(ctx, t, bob)
	if err := c.RemoveRoom(ctx, bob.User, false); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.room().Exec(ctx, engine.Command{Args: sh("true")}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a command in a room that was removed: %v", err)
	}
	another := bob.RoomConfig
	another.UID = 2777
	if _, err := c.EnsureRoom(ctx, another, ""); fault.KindOf(err) != fault.Rejected {
		t.Errorf("another user got bob's layer: %v", err)
	}
	bob.ensure(ctx, t)
	if got := marks(ctx, t, bob); got != "home heavy layer" {
		t.Errorf("the layer that was kept: %s", got)
	}
	if err := c.RemoveRoom(ctx, bob.User, true); err != nil {
		t.Fatal(err)
	}
	if got := output(ctx, t, c, "ls /run/osaurus/data/rooms /sys/fs/cgroup/rooms /run/osaurus/rooms"); strings.Contains(got, string(bob.User)) {
		t.Errorf("left behind: %s", got)
	}
	bob.ensure(ctx, t)
	if got := marks(ctx, t, bob); got != "home" {
		t.Errorf("after its removal: %s", got)
	}
	bob.isAnswered(ctx, t)
}

// anotherBase makes rooms with layers of other bases. They are discarded.
func anotherBase(ctx context.Context, t *testing.T, _, bob *agent) {
	stack := "/run/osaurus/data/rooms/" + string(bob.User) + "/stack.json"
	edit := func(base string) string { return `sed -i 's/"base":"[^"]*"/"base":"` + base + `"/' ` + stack }
	mark(ctx, t, bob)
	for _, tc := range []struct {
		name, base, marks string
		anew              bool
	}{
		{"this base", "", "home heavy layer", false},
		{"an unknown base", edit(""), "home heavy layer", false},
		{"another base", edit("another"), "home", true},
		{"this base again", "", "home", false},
	} {
		if err := bob.suite.Client.RemoveRoom(ctx, bob.User, false); err != nil {
			t.Fatal(err)
		}
		output(ctx, t, bob.suite.Client, `set -e; grep -q '"base":"[^"]' `+stack+"; "+tc.base)
		e, err := bob.suite.Client.EnsureRoom(ctx, bob.RoomConfig, bob.token)
		if err != nil || e.Anew != tc.anew || len(e.Lacks) > 0 {
			t.Fatalf("%s: %+v %v", tc.name, e, err)
		}
		if got := marks(ctx, t, bob); got != tc.marks {
			t.Errorf("layer of %s: %s", tc.name, got)
		}
	}
}

// restartGuest checks that layers outlive a boot, and tokens do not.
func restartGuest(ctx context.Context, t *testing.T, alice, bob *agent) {
	mark(ctx, t, alice)
	before := alice.token
	alice.suite.Client = alice.suite.Restart(t)
	alice.token, bob.token = alice.suite.NewToken(alice.User, alice.UID), bob.suite.NewToken(bob.User, bob.UID)
	if _, err := alice.room().Exec(ctx, engine.Command{Args: sh("true")}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("before the room is made again: %v", err)
	}
	if !alice.ensure(ctx, t) {
		t.Error("a room outlived its guest")
	}
	if got := marks(ctx, t, alice); got != "home heavy layer" {
		t.Errorf("after a restart: %s", got)
	}
	bob.ensure(ctx, t)
	if out, _ := alice.run(ctx, t, fmt.Sprintf("echo %s", secret)); out != secret {
		t.Error(out)
	}
	alice.isAnswered(ctx, t)
	bob.isAnswered(ctx, t)
	if got := alice.asks(ctx, t, asIs, before); !strings.HasPrefix(got, notKnown) {
		t.Errorf("the token of the last boot: %s", got)
	}
}
