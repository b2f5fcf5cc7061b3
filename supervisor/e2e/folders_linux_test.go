//go:build !vzstandin

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/internal/smalldisk"
	"osaurus-sandbox/internal/timetest"
)

// folders is a daemon whose agent has files in its home, in a reviewed mount and in its room. The folder
// that is mounted and the checkpoints are on a small disk.
type folders struct {
	*control.Client
	*daemon
	top  *testing.T // that of all steps
	home config.Home
	app  string
	disk *smalldisk.Disk
}

const (
	// files is how many files each step changes.
	files = 30
	// soon is when a step is interrupted at the latest. Most take longer.
	soon = time.Second
)

// step is a change. Begin prepares it, run makes it, and check looks at the result and repeats it.
type step struct {
	begin func(version int)
	run   func(ctx context.Context, version int) error
	check func(version int, err error)
}

// TestFoldersUnderFaults kills the daemon and the machine, and fills the disk, while calls are undone,
// reviews accepted and snapshots made and restored. Nothing may be half done then, nothing that was
// acknowledged lost, and the same step must work afterwards.
func TestFoldersUnderFaults(t *testing.T) {
	smalldisk.Run(t, "128m", func(disk *smalldisk.Disk) {
		f := newFolders(t, disk)
		cells := [][2]string{{"full", "undo"}, {"full", "accept"}, {"daemon", "accept"}, {"machine", "room snapshot"}}
		if everything() {
			cells = nil
			for _, fault := range []string{"full", "machine", "daemon", "daemon"} {
				for _, step := range []string{"call", "undo", "accept", "room snapshot", "room restore", "snapshot"} {
					cells = append(cells, [2]string{fault, step})
				}
			}
		}
		for i, cell := range cells {
			t.Run(strings.Join(cell[:], " "), func(t *testing.T) {
				f.daemon.t = t
				f.endure(cell[0], f.steps()[cell[1]], 1000+i)
			})
		}
		f.daemon.t = t
	})
}

func newFolders(t *testing.T, disk *smalldisk.Disk) *folders {
	t.Setenv("HOME", disk.Dir)
	f := &folders{top: t, home: config.Home(filepath.Join(t.TempDir(), "home")), app: filepath.Join(disk.Dir, "app"), disk: disk}
	p := lab.DebianPack(t)
	lab.ShareImages(t, f.home, p)
	settings, err := json.Marshal(map[string]any{"pack": p.Dir, "toolbox": []string{}, "network": "none", "secrets": "file", "memoryGB": 1, "diskGB": 1, "autoStart": false})
	kept := filepath.Join(disk.Dir, "history")
	for _, err := range []error{err, config.WriteFile(f.home.SettingsFile(), settings), os.Mkdir(f.app, 0o700), os.Mkdir(kept, 0o700), os.MkdirAll(f.home.History(), 0o700), unix.Mount(kept, f.home.History(), "", unix.MS_BIND, "")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(f.home.History(), unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	f.begin()
	t.Cleanup(func() { f.Client.Close() })
	_, err = f.Agents.Create(t.Context(), &controlpb.CreateAgentRequest{Name: "alice", Settings: map[string]string{"autonomousExec.enabled": "true"}})
	f.must(err)
	f.write(f.dir(), 0)
	f.write(f.app, 0)
	_, err = f.Mounts.Mount(t.Context(), &controlpb.MountFolderRequest{Agent: "alice", Folder: f.app, Name: "app", Keep: true})
	f.must(err)
	return f
}

// begin starts a daemon and its guest. They outlive a step.
func (f *folders) begin() {
	f.top.Helper()
	f.daemon = newProcess(f.top, apiHome, f.home)
	f.answer("ready")
	client, err := control.Connect(f.top.Context(), f.home, "test")
	f.must(err)
	f.Client = client
	_, err = f.Up(f.top.Context(), &controlpb.MachineRequest{})
	f.must(err)
}

func (f *folders) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatalf("%v\nadvice: %s", err, fault.AdviceOf(err))
	}
}

// endure makes a step while something breaks.
func (f *folders) endure(broken string, s step, version int) {
	s.begin(version)
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	if broken == "full" {
		f.disk.Fill()
		err := s.run(ctx, version)
		f.disk.Free()
		f.t.Logf("with a full disk: %v", err)
		s.check(version, err)
		f.works(version)
		return
	}
	found, ended := machines(f.t, f.pid()), make(chan error, 1)
	go func() { ended <- s.run(ctx, version) }()
	after := rand.N(soon)
	time.Sleep(after)
	if broken == "daemon" {
		send(f.t, f.pid(), syscall.SIGKILL)
		_ = f.cmd.Wait() // it was killed
	} else {
		send(f.t, found[0], syscall.SIGKILL)
	}
	for _, pid := range found {
		gone(f.t, pid)
	}
	err := <-ended
	f.t.Logf("killed after %v: %v", after, err)
	if broken == "daemon" {
		t := f.t
		f.Client.Close()
		f.begin()
		f.daemon.t = t
	} else {
		timetest.Eventually(f.t, "a new guest runs", func() bool { // the daemon may not know yet that the old one has ended
			_, err := f.Up(f.t.Context(), &controlpb.MachineRequest{})
			f.must(err)
			p, err := f.Run(f.t.Context(), control.RunAs{Agent: "alice"}, engine.Command{Args: []string{"true"}})
			if err == nil {
				_, err = p.Wait()
			}
			return err == nil
		})
	}
	s.check(version, err)
	f.works(version)
}

// works checks that a call can be undone and that all objects are whole.
func (f *folders) works(version int) {
	f.t.Helper()
	before := f.versions(f.dir())
	f.must(f.call(f.t.Context(), version+1_000_000))
	f.want(f.dir(), version+1_000_000)
	// After a checkpoint that failed, some calls may have none.
	timetest.Eventually(f.t, "a call can be undone", func() bool {
		err := f.undo(f.t.Context(), version)
		if fault.KindOf(err) == fault.Unavailable {
			f.write(f.dir(), version)
			before = f.versions(f.dir())
			f.must(f.call(f.t.Context(), version+1_000_000))
			return false
		}
		f.must(err)
		return true
	})
	if after := f.versions(f.dir()); after != before {
		f.t.Errorf("after an undo the home has %s, before the call it had %s", after, before)
	}
	damage, err := f.History.Verify(f.t.Context(), &controlpb.VerifyHistoryRequest{})
	f.must(err)
	if len(damage.Objects) > 0 {
		f.t.Errorf("damaged: %v", damage)
	}
}

func (f *folders) dir() string { return f.home.AgentHome("alice") }

func content(version int) string { return strings.Repeat(fmt.Sprintf("version %d\n", version), 2000) }

// write writes a version of all files.
func (f *folders) write(dir string, version int) {
	f.t.Helper()
	for n := range files {
		f.must(os.WriteFile(filepath.Join(dir, fmt.Sprint("f", n)), []byte(content(version)), 0o666))
	}
}

// writing is a script that does.
func writing(dir string, version int) string {
	return fmt.Sprintf("cd %s && for n in $(seq 0 %d); do yes version %d | head -2000 >f$n; done; sync", dir, files-1, version)
}

// versions returns the versions of the files in a folder, in order, without repetitions. Each file must be
// whole.
func (f *folders) versions(dir string) string {
	f.t.Helper()
	var list []string
	for n := range files {
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("f", n)))
		f.must(err)
		var version int
		if _, err := fmt.Sscanf(string(text), "version %d\n", &version); err != nil || string(text) != content(version) {
			f.t.Errorf("f%d is no whole version: %d bytes, %.40q", n, len(text), text)
		}
		if last := fmt.Sprint(version); len(list) == 0 || list[len(list)-1] != last {
			list = append(list, last)
		}
	}
	entries, err := os.ReadDir(dir)
	f.must(err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".osaurus-") {
			f.t.Errorf("%s is left in %s", e.Name(), dir)
		}
	}
	return strings.Join(list, " ")
}

// want fails the test unless all files of a folder have one of some versions.
func (f *folders) want(dir string, versions ...int) {
	f.t.Helper()
	got := f.versions(dir)
	for _, v := range versions {
		if got == fmt.Sprint(v) {
			return
		}
	}
	f.t.Errorf("%s has the versions %s, want one of %v", dir, got, versions)
}

// sh runs a script in the room.
func (f *folders) sh(script string, root bool) string {
	f.t.Helper()
	var out bytes.Buffer
	p, err := f.Run(f.t.Context(), control.RunAs{Agent: "alice"}, engine.Command{RoomRoot: root, Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
	f.must(err)
	exit, err := p.Wait()
	f.must(err)
	if exit.Status() != 0 {
		f.t.Fatalf("%s: status %d, %s", script, exit.Status(), out.String())
	}
	return strings.TrimSpace(out.String())
}

// call writes a version in the home by a tool.
func (f *folders) call(ctx context.Context, version int) error {
	args, err := json.Marshal(map[string]string{"command": writing(".", version)})
	if err != nil {
		return err
	}
	for r, err := range control.Messages(f.Tools.Call(ctx, &controlpb.CallToolRequest{Agent: "alice", Tool: "sandbox_exec", Arguments: string(args)})) {
		if err != nil {
			return err
		}
		var envelope struct{ OK bool }
		if r.Envelope == "" {
			continue
		}
		if err := json.Unmarshal([]byte(r.Envelope), &envelope); err != nil || !envelope.OK {
			return fmt.Errorf("%w: %s", err, r.Envelope)
		}
	}
	return nil
}

func (f *folders) undo(ctx context.Context, _ int) error {
	_, err := f.History.Undo(ctx, &controlpb.UndoRequest{Agent: "alice"})
	return err
}

func (f *folders) accept(ctx context.Context, _ int) error {
	done, err := f.Mounts.Decide(ctx, &controlpb.DecideRequest{Agent: "alice", Name: "app"})
	if err == nil && len(done.Left) > 0 {
		err = fmt.Errorf("left: %v", done.Left)
	}
	return err
}

func (f *folders) steps() map[string]step {
	name := func(version int) string { return fmt.Sprint("s", version) }
	change := func(action string) func(context.Context, int) error {
		return func(ctx context.Context, version int) error {
			_, err := f.Snapshots.Change(ctx, &controlpb.ChangeAgentSnapshotRequest{Agent: "alice", Name: name(version), Stop: true, Action: action})
			return err
		}
	}
	create, restore, forget := change("create"), change("restore"), change("delete")
	state := func(version int) { f.sh(fmt.Sprintf("echo %d >/etc/state && sync", version), true) }
	backup := func(ctx context.Context, version int) error {
		for _, err := range control.Messages(f.Backups.Create(ctx, &controlpb.CreateSnapshotRequest{Name: fmt.Sprint("b", version)})) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	var old string // what the home had before
	return map[string]step{
		"call": {func(int) {}, f.call, func(version int, err error) {
			if err == nil {
				f.want(f.dir(), version)
			}
			f.write(f.dir(), version) // the command itself may have been killed
		}},
		"undo": {func(version int) {
			f.write(f.dir(), version-1)
			f.must(f.call(f.t.Context(), version))
		}, f.undo, func(version int, err error) {
			if f.want(f.dir(), version-1, version); err == nil {
				f.want(f.dir(), version-1)
			}
		}},
		"accept": {func(version int) {
			old = f.versions(f.app)
			f.sh(writing("/mnt/app", version), false)
		}, f.accept, func(version int, err error) {
			for _, v := range strings.Fields(f.versions(f.app)) {
				if v != old && v != fmt.Sprint(version) {
					f.t.Errorf("a file has version %s", v)
				}
			}
			if err != nil {
				f.must(f.accept(f.t.Context(), version))
			}
			f.want(f.app, version)
		}},
		"room snapshot": {state, create, func(version int, err error) {
			if got := f.sh("cat /etc/state", true); got != fmt.Sprint(version) {
				f.t.Errorf("/etc/state is %q", got)
			}
			list, listErr := f.Snapshots.List(f.t.Context(), &controlpb.ListAgentSnapshotsRequest{Agent: "alice"})
			f.must(listErr)
			made := false
			for _, s := range list.Snapshots {
				made = made || s.Name == name(version)
			}
			if err == nil && !made {
				f.t.Error("the snapshot is lost")
			}
			if !made {
				f.must(create(f.t.Context(), version))
			}
			state(version + 1)
			f.must(restore(f.t.Context(), version))
			if got := f.sh("cat /etc/state", true); got != fmt.Sprint(version) {
				f.t.Errorf("restored, /etc/state is %q", got)
			}
			f.must(forget(f.t.Context(), version))
		}},
		"room restore": {func(version int) {
			state(version)
			f.must(create(f.t.Context(), version))
			state(version + 1)
		}, restore, func(version int, err error) {
			got := f.sh("cat /etc/state", true)
			if got != fmt.Sprint(version) && (err == nil || got != fmt.Sprint(version+1)) {
				f.t.Errorf("/etc/state is %q", got)
			}
			f.must(restore(f.t.Context(), version))
			if got := f.sh("cat /etc/state", true); got != fmt.Sprint(version) {
				f.t.Errorf("restored again, /etc/state is %q", got)
			}
			f.must(forget(f.t.Context(), version))
		}},
		"snapshot": {func(int) {}, backup, func(version int, err error) {
			list, listErr := f.Backups.List(f.t.Context(), &controlpb.ListSnapshotsRequest{})
			f.must(listErr)
			if err == nil && len(list.Snapshots) != 1 || len(list.Snapshots) > 0 && list.Snapshots[0].Created == nil {
				f.t.Errorf("%v", list)
			}
			if len(list.Snapshots) == 0 {
				f.must(backup(f.t.Context(), version))
			}
			_, err = f.Backups.Delete(f.t.Context(), &controlpb.DeleteSnapshotRequest{Name: fmt.Sprint("b", version)})
			f.must(err)
		}},
	}
}
