package guesttest

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// Serve serves a folder of the host by FUSE on a stream, as files of a user.
type Serve func(t *testing.T, folder string, readOnly bool, uid uint32) func(context.Context, io.ReadWriteCloser) error

// mountCases check folders of the host that are mounted while a room runs.
func mountCases() []roomCase {
	return []roomCase{
		{"Modes", mountModes}, {"Review", mountReview}, {"In use", mountInUse}, {"Cut", mountCut}, {"Host changes", mountHostChanges}, {"Two agents", mountTwo}, {"Places", mountPlaces}, {"Remade", mountRemade},
	}
}

// project makes a folder of the host, beside a secret that a link in it leads to.
func project(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "project")
	err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755)
	for name, text := range map[string]string{"a": "host\n", "sub/b": "below\n", "../secret": secret, "big": strings.Repeat("0123456789abcdef", 64<<10)} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	if err = errors.Join(err, os.Symlink("../secret", filepath.Join(dir, "out")), os.Symlink(filepath.Join(filepath.Dir(dir), "secret"), filepath.Join(dir, "far"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (a *agent) tryMount(ctx context.Context, t *testing.T, dir string, m guest.RoomMount) (*guest.Mounted, error) {
	t.Helper()
	m.Name = "app"
	return a.suite.Client.Mount(ctx, a.User, m, a.suite.Serve(t, dir, m.Mode != guest.MountWrite, a.UID))
}

// mount mounts a folder in the agent's room until the test ends.
func (a *agent) mount(ctx context.Context, t *testing.T, dir string, mode guest.MountMode) *guest.Mounted {
	t.Helper()
	m, err := a.tryMount(ctx, t, dir, guest.RoomMount{Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// says runs a script as the agent and compares what it writes.
func (a *agent) says(ctx context.Context, t *testing.T, script, want string) {
	t.Helper()
	if got, _ := a.run(ctx, t, script); got != want {
		t.Errorf("%s: %s, not %s", script, got, want)
	}
}

func mountModes(ctx context.Context, t *testing.T, _, bob *agent) {
	dir := project(t)
	const links = `cat out far 2>/dev/null; ls -ln a | { read -r _ _ uid gid _; echo $uid $gid; }`
	m := bob.mount(ctx, t, dir, guest.MountRead)
	bob.says(ctx, t, "cd /mnt/app && cat a sub/b && "+links, "host\nbelow\n2002 2002")
	bob.says(ctx, t, `cd /mnt/app; for c in "echo x > a" "echo x > new" "rm a" "mkdir d" "mv a c" "chmod 777 a" "ln a d" "ln -s a d"; do sh -c "$c" 2>/dev/null && echo "$c"; done; cat a`, "host")
	if out, _ := bob.asRoot(ctx, t, "exec 2>/dev/null; echo x > /mnt/app/a; cat /mnt/app/a"); out != "host" {
		t.Errorf("the room's root wrote: %s", out)
	}
	if err := m.Unmount(ctx, false); err != nil {
		t.Error(err)
	}
	bob.says(ctx, t, "ls /mnt/app; grep -c /mnt/app /proc/mounts", "0")
	bob.mount(ctx, t, dir, guest.MountWrite)
	bob.says(ctx, t, "cd /mnt/app && "+links+"; echo room > a && mkdir d && echo new > d/new && chmod 755 d/new && rm sub/b && mv big d && cat a d/new && wc -c < d/big", "2002 2002\nroom\nnew\n1048576")
	if text, err := os.ReadFile(filepath.Join(dir, "a")); string(text) != "room\n" || err != nil {
		t.Errorf("the host reads %q, %v", text, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "d/new")); err != nil || info.Mode() != 0o755 {
		t.Errorf("%v %v", info, err)
	}
}

func mountReview(ctx context.Context, t *testing.T, alice, bob *agent) {
	c, dir := bob.suite.Client, project(t)
	m := bob.mount(ctx, t, dir, guest.MountReview)
	use := func() uint64 {
		u, err := c.RoomUsages(ctx, bob.User)
		if err != nil {
			t.Fatal(err)
		}
		return u[0].Disk
	}
	before := use()
	script := `cd /mnt/app && echo more >> a && chmod 755 sub && rm sub/b && echo fresh > sub/new && rm -r sub && mkdir sub && echo again > sub/c && ln -s a s && mkfifo p && cp big copy && cat a out far 2>/dev/null; mv sub x 2>&1; cat x/c`
	bob.says(ctx, t, script, "host\nmore\nagain")
	if grown := use() - before; grown < 1<<20 || grown > 2<<20 {
		t.Errorf("the copy takes %d bytes of the quota", grown)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "a")); string(text) != "host\n" {
		t.Errorf("the host reads %q", text)
	}
	want := []string{"a file host\nmore\n", "copy file", "p other", "s link a", "sub removed", "x replaced", "x/c file again\n"}
	if got := changes(ctx, t, bob); !slices.Equal(got, want) {
		t.Errorf("changes: %q, not %q", got, want)
	}
	if got := changes(ctx, t, alice); got != nil {
		t.Errorf("alice's changes: %q", got)
	}
	for path, kind := range map[string]fault.Kind{"s": fault.Rejected, "p": fault.Rejected, "x": fault.Rejected, "none": fault.NotFound, "../uid": fault.InvalidArgs, "s/../../uid": fault.InvalidArgs} {
		if _, err := c.ReadMountChange(ctx, bob.User, "app", path); fault.KindOf(err) != kind {
			t.Errorf("reading %s: %v, not %v", path, err, kind)
		}
	}
	if err := c.ForgetMount(ctx, bob.User, "app"); fault.KindOf(err) != fault.Rejected {
		t.Errorf("forgotten while it is mounted: %v", err)
	}
	if err := m.Unmount(ctx, false); err != nil {
		t.Fatal(err)
	}
	m = bob.mount(ctx, t, dir, guest.MountReview)
	bob.says(ctx, t, "cd /mnt/app && cat a x/c", "host\nmore\nagain")
	if err := errors.Join(m.Unmount(ctx, false), c.ForgetMount(ctx, bob.User, "app")); err != nil {
		t.Fatal(err)
	}
	bob.mount(ctx, t, dir, guest.MountReview)
	bob.says(ctx, t, "cd /mnt/app && cat a sub/b && ls", "host\nbelow\na\nbig\nfar\nout\nsub")
}

// changes returns what an agent has changed in its mount, with the beginning of small files.
func changes(ctx context.Context, t *testing.T, a *agent) (list []string) {
	t.Helper()
	for change, err := range a.suite.Client.MountChanges(ctx, a.User, "app") {
		if fault.KindOf(err) == fault.NotFound && err != nil {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		text := change.Path + " " + string(change.Kind)
		if change.Target != "" {
			text += " " + change.Target
		}
		if change.Kind == guest.ChangedFile && change.Size < 100 {
			r, err := a.suite.Client.ReadMountChange(ctx, a.User, "app", change.Path)
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(r)
			if err = errors.Join(err, r.Close()); err != nil {
				t.Fatal(err)
			}
			text += " " + string(content)
		}
		if change.Made.Unix() < 1e9 || change.Modified.Unix() < 1e9 || change.Changed.Before(change.Made) || change.Inode == 0 {
			t.Errorf("the times and inode of %+v", change)
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return list
}

func mountInUse(ctx context.Context, t *testing.T, _, bob *agent) {
	c, dir := bob.suite.Client, project(t)
	for _, mode := range []guest.MountMode{guest.MountWrite, guest.MountReview} {
		m := bob.mount(ctx, t, dir, mode)
		for _, script := range []string{"cd /mnt/app/sub", "exec < /mnt/app/a"} {
			uses := newWaiter("uses it")
			p := bob.beginTo(ctx, t, uses, script+" && echo uses it && exec sleep 1000")
			uses.wait(ctx, t)
			// The shell prints before it becomes sleep.
			timetest.Eventually(t, "the program that uses it is named", func() bool {
				err := m.Unmount(ctx, false)
				if fault.KindOf(err) != fault.Rejected {
					t.Fatalf("%s: %s: %v", mode, script, err)
				}
				return strings.Contains(err.Error(), "sleep")
			})
			bob.says(ctx, t, "cat /mnt/app/a", "host")
			if err := p.Signal(ctx, 9); err != nil {
				t.Fatal(err)
			}
			_, _ = p.Wait()
		}
		eventually(ctx, t, func() bool { return m.Unmount(ctx, false) == nil }) // the killed end soon
		if err := c.ForgetMount(ctx, bob.User, "app"); err != nil {
			t.Error(err)
		}
	}
	m := bob.mount(ctx, t, dir, guest.MountRead)
	said := newWaiter("gone")
	p := bob.beginTo(ctx, t, said, "cd /mnt/app && while cat a > /dev/null 2>&1; do sleep 0.2; done; echo gone; sleep 1000")
	if err := m.Unmount(ctx, true); err != nil {
		t.Error(err)
	}
	said.wait(ctx, t)
	_ = p.Signal(ctx, 9)
}

// stalled is a stream that carries nothing once closed has been called.
type stalled struct {
	io.ReadWriteCloser
	stop chan struct{}
}

func (s stalled) Write(b []byte) (int, error) {
	select {
	case <-s.stop:
		return len(b), nil
	default:
		return s.ReadWriteCloser.Write(b)
	}
}

// mountCut ends the stream while programs wait for a reply that never comes.
func mountCut(ctx context.Context, t *testing.T, _, bob *agent) {
	dir := project(t)
	for _, mode := range []guest.MountMode{guest.MountRead, guest.MountReview} {
		stop := make(chan struct{})
		serve := bob.suite.Serve(t, dir, true, bob.UID)
		m, err := bob.suite.Client.Mount(ctx, bob.User, guest.RoomMount{Name: "app", Mode: mode}, func(ctx context.Context, s io.ReadWriteCloser) error {
			return serve(ctx, stalled{s, stop})
		})
		if err != nil {
			t.Fatal(err)
		}
		reads, failed := newWaiter("reads"), newWaiter("failed")
		p := bob.beginTo(ctx, t, io.MultiWriter(reads, failed), "cd /mnt/app && echo reads && while cat big sub/b > /dev/null 2>&1 && ls sub > /dev/null 2>&1; do :; done; echo failed; sleep 1000")
		reads.wait(ctx, t)
		close(stop)
		if err := m.Unmount(ctx, false); fault.KindOf(err) != fault.Rejected {
			t.Errorf("a stalled mount in use: %v", err)
		}
		m.Close()
		failed.wait(ctx, t)
		_ = p.Signal(ctx, 9)
		eventually(ctx, t, func() bool {
			out, _ := bob.run(ctx, t, "grep -c /mnt/app /proc/mounts")
			return out == "0"
		})
	}
	eventually(ctx, t, func() bool { // the guest cleans up after the room has ended
		return output(ctx, t, bob.suite.Client, "grep fuse /proc/mounts; ls -d /run/osaurus/rooms/*.reviews* 2>/dev/null; true") == ""
	})
}

// mountHostChanges changes a folder on the host while a room has it for review.
func mountHostChanges(ctx context.Context, t *testing.T, _, bob *agent) {
	dir := project(t)
	bob.mount(ctx, t, dir, guest.MountReview)
	bob.says(ctx, t, "cd /mnt/app && cat a sub/b new 2>/dev/null; echo mine > own", "host\nbelow")
	write := func(name string) error { return os.WriteFile(filepath.Join(dir, name), []byte("changed\n"), 0o644) }
	if err := errors.Join(write("other"), os.Rename(filepath.Join(dir, "other"), filepath.Join(dir, "a")), os.RemoveAll(filepath.Join(dir, "sub")), write("new"), write("own")); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, func() bool {
		out, _ := bob.run(ctx, t, "cd /mnt/app && cat a new own && ls -d sub 2>&1")
		return strings.HasPrefix(out, "changed\nchanged\nmine\n") && strings.Contains(out, "No such file")
	})
}

func mountTwo(ctx context.Context, t *testing.T, alice, bob *agent) {
	dir := project(t)
	alice.mount(ctx, t, dir, guest.MountWrite)
	bob.says(ctx, t, "ls /mnt/app 2>/dev/null; grep -c app /proc/mounts", "0")
	bob.mount(ctx, t, dir, guest.MountReview)
	alice.says(ctx, t, "cd /mnt/app; echo alice > a; ls -ln a | { read -r _ _ uid _; echo $uid; }", "2001")
	bob.says(ctx, t, "cd /mnt/app; cat a; echo bob > a; ls -ln a | { read -r _ _ uid _; echo $uid; }", "alice\n2002")
	alice.says(ctx, t, "cat /mnt/app/a", "alice")
	for _, a := range []*agent{alice, bob} {
		a.says(ctx, t, "grep -c /mnt/app /proc/mounts; grep reviews /proc/mounts | grep -vc /mnt/app", "1\n0")
	}
}

func mountPlaces(ctx context.Context, t *testing.T, _, bob *agent) {
	dir := project(t)
	for _, path := range []string{"/", "/mnt", "/etc/app", "/proc", "/mnt/../etc/app", "/mnt//app", "/workspace/agents", "/workspace/shared/app", bob.Home, "/workspace/agents/alice/app", "app"} {
		if _, err := bob.tryMount(ctx, t, dir, guest.RoomMount{Path: path, Mode: guest.MountRead}); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("mounted at %s: %v", path, err)
		}
	}
	bob.asRoot(ctx, t, "rm -rf /mnt && ln -s /etc /mnt")
	bob.run(ctx, t, "ln -s /tmp trap; echo x > file")
	for _, path := range []string{"/mnt/app", bob.Home + "/trap/app", bob.Home + "/trap", bob.Home + "/file"} {
		if _, err := bob.tryMount(ctx, t, dir, guest.RoomMount{Path: path, Mode: guest.MountRead}); err == nil {
			t.Errorf("mounted at %s", path)
		}
	}
	bob.asRoot(ctx, t, "rm /mnt && mkdir /mnt")
	bob.says(ctx, t, "ls -d /etc/app /tmp/app 2>/dev/null; grep -c fuse.*app /proc/mounts", "0")
	m, err := bob.tryMount(ctx, t, dir, guest.RoomMount{Path: bob.Home + "/p/q/app", Mode: guest.MountRead})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	bob.says(ctx, t, "mv p moved && mkdir -p p/q/app && cat moved/q/app/a", "host")
	if err := m.Unmount(ctx, false); err != nil {
		t.Error(err)
	}
	bob.says(ctx, t, "ls moved/q/app; grep -c app /proc/mounts; rm -r p moved trap file", "0")
}

func mountRemade(ctx context.Context, t *testing.T, _, bob *agent) {
	dir := project(t)
	m := bob.mount(ctx, t, dir, guest.MountReview)
	bob.says(ctx, t, "echo mine > /mnt/app/a; cat /mnt/app/a", "mine")
	again := bob.mount(ctx, t, dir, guest.MountReview) // the same name
	<-m.Done()
	bob.says(ctx, t, "cat /mnt/app/a; grep -c /mnt/app /proc/mounts", "mine\n1")
	if err := bob.suite.Client.ResetRoom(ctx, bob.User); err != nil {
		t.Fatal(err)
	}
	<-again.Done()
	bob.ensure(ctx, t)
	bob.mount(ctx, t, dir, guest.MountReview)
	bob.says(ctx, t, "cat /mnt/app/a", "mine")
	if err := bob.suite.Client.RemoveRoom(ctx, bob.User, true); err != nil {
		t.Fatal(err)
	}
	bob.ensure(ctx, t)
	if got := changes(ctx, t, bob); got != nil {
		t.Errorf("after the room's removal: %q", got)
	}
	if err := bob.suite.Client.ForgetMount(ctx, bob.User, config.MountName("none")); err != nil {
		t.Error(err)
	}
}
