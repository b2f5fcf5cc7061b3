//go:build !vzstandin

package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm/qemu"
)

// mountsTest is a daemon with a guest, and a person with a project under Git.
type mountsTest struct {
	*control.Client
	t   *testing.T
	app string
}

// TestMounts mounts a project for two agents. A person takes three hunks of what one of them did, and nothing else.
func TestMounts(t *testing.T) {
	person := t.TempDir()
	t.Setenv("HOME", person)
	m := &mountsTest{t: t, app: filepath.Join(person, "app")}
	m.project()
	_, m.Client = serve(t, "none", daemon.Options{Driver: &qemu.Driver{}})
	for _, name := range []string{"alice", "bob"} {
		if _, err := m.Agents.Create(t.Context(), &controlpb.CreateAgentRequest{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	m.mount("alice", &controlpb.MountFolderRequest{Keep: true})
	m.mount("bob", &controlpb.MountFolderRequest{Name: "theirs"})
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"edit and build", m.edit}, {"three hunks", m.hunks}, {"reject", m.reject}, {"undo", m.undo}, {"merge", m.merge}, {"a new guest", m.restart}, {"a snapshot", m.snapshot}, {"the room ends", m.roomEnds}, {"modes", m.modes}, {"ends", m.ends},
	} {
		if !t.Run(step.name, func(t *testing.T) { m.t = t; step.run() }) {
			return // the next one builds on it
		}
	}
}

// file is the content of a file of the project, with these lines changed.
func file(changed map[int]string) string {
	var b strings.Builder
	for n := 1; n <= 40; n++ {
		if text, ok := changed[n]; ok {
			fmt.Fprintln(&b, text)
		} else {
			fmt.Fprintln(&b, "line", n)
		}
	}
	return b.String()
}

func (m *mountsTest) project() {
	m.t.Helper()
	for n := range 10 {
		m.write(fmt.Sprintf("src/f%d.txt", n), file(nil))
	}
	m.write(".gitignore", "out/\n")
	m.write("gone.txt", "gone\n")
	m.git("init", "-q")
	m.git("add", "-A")
	m.git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "first")
}

func (m *mountsTest) write(path, text string) {
	m.t.Helper()
	path = filepath.Join(m.app, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *mountsTest) read(path string) string {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.app, path))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(text)
}

func (m *mountsTest) git(args ...string) string {
	m.t.Helper()
	out, err := exec.Command("git", append([]string{"-C", m.app}, args...)...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// want compares what Git says of the project on the host.
func (m *mountsTest) want(numstat string) {
	m.t.Helper()
	if got := m.git("status", "--porcelain") + m.git("diff", "--numstat"); got != numstat {
		m.t.Errorf("git says %q, want %q", got, numstat)
	}
}

func (m *mountsTest) mount(agent string, r *controlpb.MountFolderRequest) *controlpb.Mount {
	m.t.Helper()
	r.Agent, r.Folder = agent, m.app
	made, err := m.Mounts.Mount(m.t.Context(), r)
	if err != nil {
		m.t.Fatalf("%v: %s", err, fault.AdviceOf(err))
	}
	return made.Mount
}

// script runs a script in an agent's room and returns its output and exit code.
func (m *mountsTest) script(agent, text string) (string, int) {
	m.t.Helper()
	var out bytes.Buffer
	p, err := m.Run(m.t.Context(), control.RunAs{Agent: agent}, engine.Command{Args: []string{"sh", "-c", text}, Stdout: &out, Stderr: &out})
	if err != nil {
		m.t.Fatal(err)
	}
	exit, err := p.Wait()
	if err != nil {
		m.t.Fatal(err)
	}
	return out.String(), exit.Code
}

func (m *mountsTest) does(agent, text string) string {
	m.t.Helper()
	out, code := m.script(agent, text)
	if code != 0 {
		m.t.Fatalf("%s: %d, %s", text, code, out)
	}
	return out
}

func (m *mountsTest) review(agent, name string) (list []*controlpb.FileChange, rest *controlpb.ReviewedRest) {
	m.t.Helper()
	for r, err := range control.Messages(m.Mounts.Review(m.t.Context(), &controlpb.ReviewRequest{Agent: agent, Name: name, Hunks: true})) {
		switch {
		case err != nil:
			m.t.Fatalf("%v: %s", err, fault.AdviceOf(err))
		case r.Rest != nil:
			rest = r.Rest
		default:
			list = append(list, r.Change)
		}
	}
	return list, rest
}

// edit: an agent edits ten files, deletes one and builds. The folder stays as it is, and so does the other agent's view.
func (m *mountsTest) edit() {
	out := m.does("alice", `cd /mnt/app && sed -i -e 's/^line 3$/LINE 3/' -e 's/^line 35$/LINE 35/' src/*.txt && rm gone.txt &&
		mkdir -p out && cat src/*.txt >out/all && wc -l <out/all && printf '#!/bin/sh\necho built\n' >build && chmod +x build && ./build`)
	if out != "400\nbuilt\n" {
		m.t.Errorf("it built %q", out)
	}
	m.want("")
	if out := m.does("bob", "cd /mnt/theirs && cat src/*.txt | grep -c LINE; ls; sed -i 's/^line 20$/bob was here/' src/f0.txt"); !strings.HasPrefix(out, "0\n") || !strings.Contains(out, "gone.txt") {
		m.t.Errorf("bob sees %q", out)
	}
	if out, code := m.script("bob", "ls /mnt/app"); code == 0 {
		m.t.Errorf("bob sees alice's mount: %q", out)
	}
	m.want("")
	if list, _ := m.review("bob", "theirs"); len(list) != 1 || list[0].Path != "src/f0.txt" {
		m.t.Errorf("%v", list)
	}
}

// hunks: three hunks are accepted.
func (m *mountsTest) hunks() {
	list, rest := m.review("alice", "app")
	var paths []string
	var picks []*controlpb.ReviewPick
	for _, c := range list {
		paths = append(paths, c.Path)
		if strings.HasPrefix(c.Path, "src/") && (c.LinesAdded != 2 || c.LinesGone != 2 || len(c.Hunks) != 2) {
			m.t.Errorf("%v", c)
		}
		for path, hunk := range map[string]int32{"src/f0.txt": 1, "src/f1.txt": 2, "src/f2.txt": 1} {
			if c.Path == path {
				picks = append(picks, &controlpb.ReviewPick{Path: path, Id: c.Id, Hunks: []int32{hunk}})
			}
		}
	}
	if len(list) != 12 || rest.Ignored != 1 || len(picks) != 3 {
		m.t.Fatalf("%q, %v", paths, rest)
	}
	done, err := m.Mounts.Decide(m.t.Context(), &controlpb.DecideRequest{Agent: "alice", Name: "app", Picks: picks})
	if err != nil || len(done.Done) != 3 || len(done.Left) != 0 {
		m.t.Fatalf("%v, %v", done, err)
	}
	m.want(" M src/f0.txt\n M src/f1.txt\n M src/f2.txt\n1\t1\tsrc/f0.txt\n1\t1\tsrc/f1.txt\n1\t1\tsrc/f2.txt\n")
	if m.read("src/f0.txt") != file(map[int]string{3: "LINE 3"}) || m.read("src/f1.txt") != file(map[int]string{35: "LINE 35"}) {
		m.t.Error("other hunks were accepted")
	}
}

// reject: all the rest is as on the host afterwards, also for the agent.
func (m *mountsTest) reject() {
	done, err := m.Mounts.Decide(m.t.Context(), &controlpb.DecideRequest{Agent: "alice", Name: "app", Reject: true})
	if err != nil || len(done.Done) != 12 || len(done.Left) != 0 {
		m.t.Fatalf("%v, %v", done, err)
	}
	if list, _ := m.review("alice", "app"); len(list) != 0 {
		m.t.Errorf("%v", list)
	}
	for n := range 10 {
		path := fmt.Sprintf("src/f%d.txt", n)
		if got := m.does("alice", "cat /mnt/app/"+path); got != m.read(path) {
			m.t.Errorf("alice's %s is %q", path, got)
		}
	}
	if out := m.does("alice", "cat /mnt/app/gone.txt; ls /mnt/app/build 2>&1 || true"); !strings.HasPrefix(out, "gone\n") || !strings.Contains(out, "No such file") {
		m.t.Errorf("%q", out)
	}
	m.want(" M src/f0.txt\n M src/f1.txt\n M src/f2.txt\n1\t1\tsrc/f0.txt\n1\t1\tsrc/f1.txt\n1\t1\tsrc/f2.txt\n")
}

// undo: a call's changes in the mount are taken back in the room.
func (m *mountsTest) undo() {
	m.does("alice", "cd /mnt/app && echo x >src/f2.txt && rm src/f3.txt && mkdir new && echo y >new/y")
	shown := map[string]string{}
	for r, err := range control.Messages(m.History.Diff(m.t.Context(), &controlpb.DiffHistoryRequest{Agent: "alice", Text: true})) {
		if err != nil {
			m.t.Fatal(err)
		}
		shown[r.Change.Path] = fmt.Sprint(r.Change.What, strings.Count(strings.ToLower(strings.Join(r.Change.Hunks, "")), "\n-line"))
	}
	want := map[string]string{"/mnt/app/src/f2.txt": "modified40", "/mnt/app/src/f3.txt": "removed40", "/mnt/app/new": "added0", "/mnt/app/new/y": "added0"}
	for path, what := range want {
		if shown[path] != what {
			m.t.Errorf("%s: %q, want %q", path, shown[path], what)
		}
	}
	if _, err := m.History.Undo(m.t.Context(), &controlpb.UndoRequest{Agent: "alice"}); err != nil {
		m.t.Fatal(err)
	}
	if list, _ := m.review("alice", "app"); len(list) != 0 {
		m.t.Errorf("changed: %v", list)
	}
	if out := m.does("alice", "cd /mnt/app && cat src/f2.txt src/f3.txt && [ ! -e new ]"); out != m.read("src/f2.txt")+m.read("src/f3.txt") {
		m.t.Errorf("%q", out)
	}
}

// merge: bob's change of a file in which alice's hunk was accepted keeps both.
func (m *mountsTest) merge() {
	done, err := m.Mounts.Decide(m.t.Context(), &controlpb.DecideRequest{Agent: "bob", Name: "theirs"})
	if err != nil || len(done.Done) != 1 || !done.Done[0].Merged {
		m.t.Fatalf("%v, %v", done, err)
	}
	if got := m.read("src/f0.txt"); got != file(map[int]string{3: "LINE 3", 20: "bob was here"}) {
		m.t.Errorf("%q", got)
	}
}

// restart: the mounts and what was changed in them are there in the next guest.
func (m *mountsTest) restart() {
	m.does("alice", "echo later >/mnt/app/later.txt")
	if _, err := m.Restart(m.t.Context(), &controlpb.MachineRequest{}); err != nil {
		m.t.Fatal(err)
	}
	if out := m.does("alice", "cat /mnt/app/later.txt /mnt/app/gone.txt"); out != "later\ngone\n" {
		m.t.Errorf("%q", out)
	}
	if _, err := m.Mounts.Unmount(m.t.Context(), &controlpb.UnmountFolderRequest{Agent: "alice", Name: "app"}); fault.KindOf(err) != fault.Rejected {
		m.t.Errorf("with changes: %v", err)
	}
	if _, err := m.Mounts.Unmount(m.t.Context(), &controlpb.UnmountFolderRequest{Agent: "alice", Name: "app", Force: true}); err != nil {
		m.t.Error(err)
	}
	m.mount("alice", &controlpb.MountFolderRequest{})
	if list, _ := m.review("alice", "app"); len(list) != 0 {
		m.t.Errorf("discarded changes are there again: %v", list)
	}
	if _, err := m.Mounts.Unmount(m.t.Context(), &controlpb.UnmountFolderRequest{Agent: "alice", Name: "app"}); err != nil {
		m.t.Error(err)
	}
}

// snapshot: the mounts are there in the room that follows a snapshot.
func (m *mountsTest) snapshot() {
	m.mount("alice", &controlpb.MountFolderRequest{Mode: "read", Name: "kept"})
	for _, name := range []string{"one", "two"} {
		p, err := m.Run(m.t.Context(), control.RunAs{Agent: "alice"}, engine.Command{Args: []string{"sh", "-c", "echo " + name + " >/etc/changed"}, RoomRoot: true})
		if err != nil {
			m.t.Fatal(err)
		}
		if exit, err := p.Wait(); err != nil || exit.Code != 0 {
			m.t.Fatalf("%+v %v", exit, err)
		}
		if _, err := m.Snapshots.Change(m.t.Context(), &controlpb.ChangeAgentSnapshotRequest{Agent: "alice", Name: name, Action: "create"}); err != nil {
			m.t.Fatal(err)
		}
		if out := m.does("alice", "cat /mnt/kept/gone.txt"); out != "gone\n" {
			m.t.Errorf("%q", out)
		}
	}
	if _, err := m.Mounts.Unmount(m.t.Context(), &controlpb.UnmountFolderRequest{Agent: "alice", Name: "kept"}); err != nil {
		m.t.Error(err)
	}
}

// roomEnds: the mounts are there in the room that follows one whose first process was killed.
func (m *mountsTest) roomEnds() {
	m.mount("alice", &controlpb.MountFolderRequest{Mode: "read", Name: "kept"})
	const killFirst = `for p in $(ls /proc | grep '^[0-9]*$' | sort -n); do [ "$(cat /proc/$p/root/etc/hostname 2>/dev/null)" = alice ] && exec kill -9 $p; done; exit 1`
	p, err := m.Run(m.t.Context(), control.RunAs{}, engine.Command{Args: []string{"sh", "-c", killFirst}})
	if err != nil {
		m.t.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Code != 0 {
		m.t.Fatalf("%+v %v", exit, err)
	}
	timetest.Eventually(m.t, "the folder is mounted again", func() bool {
		p, err := m.Run(m.t.Context(), control.RunAs{Agent: "alice"}, engine.Command{Args: []string{"test", "-e", "/mnt/kept/gone.txt"}})
		if err != nil {
			return false // the old room is ending
		}
		exit, err := p.Wait()
		return err == nil && exit.Code == 0
	})
	if _, err := m.Mounts.Unmount(m.t.Context(), &controlpb.UnmountFolderRequest{Agent: "alice", Name: "kept"}); err != nil {
		m.t.Error(err)
	}
}

// modes: read changes nothing, and write changes the folder.
func (m *mountsTest) modes() {
	m.mount("alice", &controlpb.MountFolderRequest{Mode: "read", Name: "r", At: "/workspace/agents/alice/r"})
	if out, code := m.script("alice", "exec 2>&1; cat r/gone.txt; echo x >r/gone.txt || rm -f r/gone.txt || touch r/new"); code == 0 || !strings.HasPrefix(out, "gone\n") {
		m.t.Errorf("%d, %q", code, out)
	}
	if _, err := m.Mounts.Unmount(m.t.Context(), &controlpb.UnmountFolderRequest{Agent: "alice", Name: "r"}); err != nil {
		m.t.Fatal(err)
	}
	m.mount("alice", &controlpb.MountFolderRequest{Mode: "write", Name: "w"})
	m.does("alice", "echo written >/mnt/w/new.txt && rm /mnt/w/gone.txt && chmod +x /mnt/w/src/f9.txt")
	if m.read("new.txt") != "written\n" || !strings.Contains(m.git("status", "--porcelain"), " D gone.txt\n") {
		m.t.Error(m.git("status", "--porcelain"))
	}
	p := "/mnt/w" // a program that uses it
	users, err := m.Run(m.t.Context(), control.RunAs{Agent: "alice"}, engine.Command{Args: []string{"sh", "-c", "cd " + p + " && echo here >ready && exec sleep 600"}})
	if err != nil {
		m.t.Fatal(err)
	}
	timetest.Eventually(m.t, "a program uses it", func() bool { _, err := os.Stat(filepath.Join(m.app, "ready")); return err == nil })
	timetest.Eventually(m.t, "an unmount names the program", func() bool { // which has begun as sh
		_, err := m.Mounts.Unmount(m.t.Context(), &controlpb.UnmountFolderRequest{Agent: "alice", Name: "w"})
		return fault.KindOf(err) == fault.Rejected && strings.Contains(err.Error(), "sleep")
	})
	if _, err := m.Mounts.Unmount(m.t.Context(), &controlpb.UnmountFolderRequest{Agent: "alice", Name: "w", Force: true}); err != nil {
		m.t.Error(err)
	}
	_ = users.Signal(m.t.Context(), engine.SIGKILL)
	_, _ = users.Wait()
	if out, code := m.script("alice", "ls /mnt/w/src"); code == 0 {
		m.t.Errorf("unmounted: %q", out)
	}
}

// ends: a mount ends with its time and with its agent.
func (m *mountsTest) ends() {
	m.mount("alice", &controlpb.MountFolderRequest{Name: "short", For: durationpb.New(5 * time.Second)})
	timetest.Eventually(m.t, "the mount ends", func() bool {
		r, err := m.Mounts.List(m.t.Context(), &controlpb.ListMountsRequest{Agent: "alice"})
		return err == nil && len(r.Mounts) == 0
	})
	if out, code := m.script("alice", "ls /mnt/short/src"); code == 0 {
		m.t.Errorf("after its time: %q", out)
	}
	if _, err := m.Agents.Delete(m.t.Context(), &controlpb.DeleteAgentRequest{Agent: "bob"}); err != nil {
		m.t.Fatal(err)
	}
	timetest.Eventually(m.t, "the mount ends with its agent", func() bool {
		r, err := m.Mounts.List(m.t.Context(), &controlpb.ListMountsRequest{})
		return err == nil && len(r.Mounts) == 0
	})
}
