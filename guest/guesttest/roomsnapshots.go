package guesttest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// snapshotCases check the snapshots and forks of rooms' roots.
func snapshotCases() []roomCase {
	return []roomCase{{"Restore", restoreSnapshot}, {"Running", snapshotOfRunning}, {"Refused", refusedSnapshot}, {"Fork", forkRoom}, {"Export", exportRoom}}
}

// root runs a script as the root of the room.
func (a *agent) root(ctx context.Context, t *testing.T, script string) string {
	t.Helper()
	out, exit := a.asRoot(ctx, t, "set -e; "+script)
	if exit.Status() != 0 {
		t.Fatalf("%s: %s", script, out)
	}
	return out
}

// snapshot makes a snapshot.
func (a *agent) snapshot(ctx context.Context, name config.SnapshotName, stop bool) (string, error) {
	return a.suite.Client.ChangeSnapshot(ctx, a.User, engine.CreateSnapshot, name, stop)
}

// restore restores a snapshot.
func (a *agent) restore(ctx context.Context, name string) (before string, err error) {
	return a.suite.Client.ChangeSnapshot(ctx, a.User, engine.RestoreSnapshot, config.SnapshotName(name), false)
}

// restoreSnapshot changes a root as an installation does, and goes back and forth.
func restoreSnapshot(ctx context.Context, t *testing.T, _, bob *agent) {
	c := bob.suite.Client
	const state = "{ cat /tmp/kept; cat /opt/tool/* /etc/tool.conf; ls -d /opt/tool/* /etc/motd.tool; } 2>/dev/null || true"
	bob.root(ctx, t, "mkdir -p /opt/tool; echo 1 > /opt/tool/version; echo one > /etc/tool.conf; echo > /etc/motd.tool; echo kept > /tmp/kept")
	first := bob.root(ctx, t, state)
	if made, err := bob.snapshot(ctx, "first", false); made != "first" || err != nil {
		t.Fatal(made, err)
	}
	if _, err := bob.snapshot(ctx, "first", false); fault.KindOf(err) != fault.Rejected {
		t.Errorf("a name that is taken: %v", err)
	}
	for range 2 { // nothing has changed since
		if made, err := bob.snapshot(ctx, "before-install", false); made != "" || err != nil {
			t.Fatalf("without a change: %s %v", made, err)
		}
	}
	bob.root(ctx, t, "rm -r /opt/tool; mkdir /opt/tool; echo 2 > /opt/tool/two; echo two > /etc/tool.conf; rm /etc/motd.tool")
	second := bob.root(ctx, t, state)
	list, err := c.DiffSnapshot(ctx, bob.User, "first")
	want := []string{"- /etc/motd.tool", "~ /etc/tool.conf", "+ /opt/tool/two", "- /opt/tool/version"}
	if err != nil || !slices.Equal(list, want) {
		t.Errorf("changed: %v %v, want %v", list, err, want)
	}
	auto, err := bob.snapshot(ctx, "before-install", false)
	if err != nil || !strings.HasPrefix(auto, "before-install-") {
		t.Fatalf("with a change: %s %v", auto, err)
	}
	bob.root(ctx, t, "echo three > /etc/tool.conf")
	third := bob.root(ctx, t, state)

	before, err := bob.restore(ctx, "first")
	if err != nil || before == "" {
		t.Fatalf("restore: %v %v", before, err)
	}
	for _, step := range []struct {
		name  string
		state string
	}{{"", first}, {auto, second}, {before, third}, {"first", first}} {
		if step.name != "" {
			if again, err := bob.restore(ctx, step.name); err != nil || again != "" {
				t.Fatalf("restore %s: %v %v", step.name, again, err)
			}
		}
		if got := bob.root(ctx, t, state); got != step.state {
			t.Errorf("after restoring %s: %q, want %q", step.name, got, step.state)
		}
	}
	if _, err := c.ChangeSnapshot(ctx, bob.User, engine.DeleteSnapshot, config.SnapshotName(auto), false); err != nil {
		t.Error(err)
	}
	if _, err := bob.restore(ctx, before); err != nil {
		t.Fatal(err)
	}
	if got := bob.root(ctx, t, state); got != third {
		t.Errorf("from merged layers: %q, want %q", got, third)
	}
	// The layers that only the last one has are merged when the room is made: there are these two, and the upper one.
	if got := output(ctx, t, c, "tr , '\\n' < /run/osaurus/data/rooms/"+string(bob.User)+"/stack.json | grep -o '2[0-9]*-[a-z2-7]\\{16\\}' | sort -u | wc -l"); got != "3" {
		t.Errorf("%s layers, not 3", got)
	}
	if _, err := bob.restore(ctx, "none"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("none: %v", err)
	}
	if use, err := c.RoomUsages(ctx, bob.User); err != nil || use[0].DiskFiles < 10 {
		t.Errorf("frozen layers do not count: %+v %v", use, err)
	}
	if err := c.ResetRoom(ctx, bob.User); err != nil {
		t.Fatal(err)
	}
	bob.ensure(ctx, t)
	if list, err := c.ListSnapshots(ctx, bob.User); err != nil || len(list) > 0 {
		t.Errorf("after a reset: %v %v", list, err)
	}
}

// snapshotOfRunning refuses to end programs unless it is told to.
func snapshotOfRunning(ctx context.Context, t *testing.T, _, bob *agent) {
	bob.root(ctx, t, "echo running > /etc/mark")
	p := bob.begin(ctx, t, "exec sleep 1000")
	eventually(ctx, t, func() bool { // the shell reports before it becomes sleep
		_, err := bob.snapshot(ctx, "running", false)
		if fault.KindOf(err) != fault.Rejected {
			t.Fatalf("while a program runs: %v", err)
		}
		return strings.Contains(err.Error(), "sleep (pid ")
	})
	if _, err := bob.snapshot(ctx, "running", true); err != nil {
		t.Error(err)
	}
	if _, err := p.Wait(); err == nil {
		t.Error("the program went on")
	}
	if got := bob.root(ctx, t, "cat /etc/mark"); got != "running" {
		t.Error(got)
	}
}

// refusedSnapshot checks that requests with stop that fail for another reason end no shell and no job.
func refusedSnapshot(ctx context.Context, t *testing.T, alice, bob *agent) {
	c := bob.suite.Client
	if _, err := bob.snapshot(ctx, "taken", false); err != nil {
		t.Fatal(err)
	}
	bob.shell(ctx, t, "X=1")
	bob.root(ctx, t, "echo refused > /etc/mark")
	j := bob.job(ctx, t, "sleep 600")
	if _, err := c.ChangeSnapshot(ctx, bob.User, engine.RestoreSnapshot, "none", true); fault.KindOf(err) != fault.NotFound {
		t.Errorf("restore an unknown snapshot: %v", err)
	}
	if _, err := bob.snapshot(ctx, "taken", true); fault.KindOf(err) != fault.Rejected {
		t.Errorf("make a snapshot of a name that is taken: %v", err)
	}
	if err := c.ForkRoom(ctx, bob.User, alice.User, alice.UID, true); fault.KindOf(err) != fault.Rejected {
		t.Errorf("fork to a user with a room: %v", err)
	}
	if j, err := bob.room().Job(ctx, j.ID); err != nil || !j.Running {
		t.Errorf("the job: %+v %v", j, err)
	}
	wantShell(t, bob.shell(ctx, t, "echo $X"), 0, "1\n")
	if _, err := bob.snapshot(ctx, "other", true); err != nil {
		t.Error(err)
	}
	if _, err := bob.room().Job(ctx, j.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a job outlived its room: %v", err)
	}
}

// forkRoom gives a third agent the root of bob, who has as many snapshots as a room may have.
func forkRoom(ctx context.Context, t *testing.T, _, bob *agent) {
	c := bob.suite.Client
	carol := bob.suite.describe(t, "carol", 2003)
	carol.token = bob.suite.NewToken(carol.User, carol.UID)
	for n := range 20 {
		_, err := bob.snapshot(ctx, config.SnapshotName(fmt.Sprint("s", n)), false)
		if err == nil {
			continue
		}
		if fault.KindOf(err) != fault.Rejected {
			t.Fatal(err)
		}
		break
	}
	bob.root(ctx, t, "mkdir /opt/shared; echo both > /opt/shared/file; touch /opt/shared/own; chown "+string(bob.User)+" /opt/shared/own")
	if err := c.ForkRoom(ctx, bob.User, carol.User, carol.UID, false); err != nil {
		t.Fatal(err)
	}
	if err := c.ForkRoom(ctx, bob.User, carol.User, carol.UID, false); fault.KindOf(err) != fault.Rejected {
		t.Errorf("a second time: %v", err)
	}
	carol.ensure(ctx, t)
	bob.ensure(ctx, t)
	carol.root(ctx, t, "echo carol >> /opt/shared/file")
	bob.root(ctx, t, "echo bob >> /opt/shared/file")
	for a, want := range map[*agent]string{bob: "both\nbob", carol: "both\ncarol"} {
		if got := a.root(ctx, t, "cat /opt/shared/file"); got != want {
			t.Errorf("%s: %q", a.User, got)
		}
		if out, exit := a.run(ctx, t, "echo mine > /opt/shared/own && ls -n /opt/shared/own"); exit.Status() != 0 {
			t.Errorf("%s does not own its file: %s", a.User, out)
		}
	}
	if err := c.ResetRoom(ctx, bob.User); err != nil {
		t.Fatal(err)
	}
	if got := carol.root(ctx, t, "cat /opt/shared/file"); got != "both\ncarol" {
		t.Errorf("after bob's reset: %q", got)
	}
	bob.ensure(ctx, t)
	if err := c.RemoveRoom(ctx, carol.User, true); err != nil {
		t.Error(err)
	}
}

// exportRoom gives a third agent the root of bob from an archive.
func exportRoom(ctx context.Context, t *testing.T, _, bob *agent) {
	c := bob.suite.Client
	const state = "cd /; ls -dln opt/moved/own etc/moved bin/suid opt/moved/one opt/moved/two | sed 's/ 200[23] / UID /g'; cat etc/moved opt/moved/two; ls -A etc/apk etc/apt; ls -d var/lib/moved etc/motd etc/shells 2>&1 || [ opt/moved/one -ef opt/moved/two ]"
	bob.root(ctx, t, "rm -rf /etc/apk /etc/apt /etc/motd /etc/shells; mkdir -p /etc/apk /etc/apt /opt/moved /var/lib/moved; echo new > /etc/apk/new; echo text > /etc/moved; cp /bin/sh /bin/suid; chmod 4755 /bin/suid; "+
		"echo linked > /opt/moved/one; ln /opt/moved/one /opt/moved/two; touch /opt/moved/own; chown "+string(bob.User)+" /opt/moved/own")
	if _, err := bob.snapshot(ctx, "halfway", false); err != nil {
		t.Fatal(err)
	}
	bob.root(ctx, t, "echo more >> /etc/moved; rm -r /var/lib/moved; touch -d 2020-02-02 /bin/suid")
	want := bob.root(ctx, t, state)
	var archive bytes.Buffer
	if err := c.ExportRoom(ctx, bob.User, &archive); err != nil {
		t.Fatal(err)
	}
	carol := bob.suite.describe(t, "carol", 2003)
	carol.token = bob.suite.NewToken(carol.User, carol.UID)
	for what, reader := range map[string]io.Reader{
		"cut off":  io.MultiReader(bytes.NewReader(archive.Bytes()[:archive.Len()/2]), iotest.ErrReader(io.ErrUnexpectedEOF)),
		"unsound":  io.MultiReader(bytes.NewReader(archive.Bytes()), iotest.ErrReader(io.ErrUnexpectedEOF)),
		"followed": bytes.NewReader(append(slices.Clone(archive.Bytes()), 0)),
	} {
		if err := c.ImportRoom(ctx, carol.RoomConfig, reader); fault.KindOf(err) != fault.Rejected {
			t.Errorf("%s: %v", what, err)
		}
		if err := c.RemoveRoom(ctx, carol.User, true); err != nil {
			t.Fatal(err)
		}
	}
	small := carol.RoomConfig
	small.Limits.Disk = 1 << 20
	if err := c.ImportRoom(ctx, small, bytes.NewReader(large(t, 2<<20))); fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "quota") {
		t.Errorf("beyond the quota: %v", err)
	}
	if err := c.RemoveRoom(ctx, carol.User, true); err != nil {
		t.Fatal(err)
	}
	if err := c.ImportRoom(ctx, carol.RoomConfig, &archive); err != nil {
		t.Fatal(err)
	}
	if err := c.ImportRoom(ctx, carol.RoomConfig, bytes.NewReader(nil)); fault.KindOf(err) != fault.Rejected {
		t.Errorf("a second time: %v", err)
	}
	carol.ensure(ctx, t)
	if got := carol.root(ctx, t, state); got != want {
		t.Errorf("carol has\n%s\nbob has\n%s", got, want)
	}
	if out, exit := carol.run(ctx, t, "echo mine > /opt/moved/own"); exit.Status() != 0 {
		t.Errorf("carol does not own her file: %s", out)
	}
	if use, err := c.RoomUsages(ctx, carol.User); err != nil || use[0].DiskFiles < 10 {
		t.Errorf("imported layers do not count: %+v %v", use, err)
	}
	if err := c.RemoveRoom(ctx, carol.User, true); err != nil {
		t.Error(err)
	}
	if err := c.ResetRoom(ctx, bob.User); err != nil {
		t.Error(err)
	}
}

// large is an archive with a file of a size.
func large(t *testing.T, size int64) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "1-a/"}), w.WriteHeader(&tar.Header{Name: "1-a/f", Size: size}))
	_, failed := w.Write(make([]byte, size))
	if err = errors.Join(err, failed, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
