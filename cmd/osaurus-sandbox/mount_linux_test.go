package main

import (
	"context"
	"flag"
	"io"
	"iter"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/mounts"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// changedFiles is a guest in which an agent has written these files into every mount. A text after "-> " is a link's target.
type changedFiles map[string]string

func (changedFiles) Mount(ctx context.Context, _ config.LinuxUser, _ guest.RoomMount, serve func(context.Context, io.ReadWriteCloser) error) (mounts.Attached, error) {
	ours, _ := net.Pipe()
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = serve(ctx, ours)
	}()
	return mountedHere{done, end}, nil
}

func (f changedFiles) MountChanges(context.Context, config.LinuxUser, config.MountName) iter.Seq2[guest.MountChange, error] {
	return func(yield func(guest.MountChange, error) bool) {
		for _, path := range slices.Sorted(maps.Keys(f)) {
			if dir := filepath.Dir(path); dir != "." && !yield(guest.MountChange{Path: dir, Kind: guest.ChangedFolder, Mode: 0o755}, nil) {
				return
			}
			c := guest.MountChange{Path: path, Kind: guest.ChangedFile, Mode: 0o644, Size: uint64(len(f[path])), Made: time.Now().Add(time.Hour)}
			if target, link := strings.CutPrefix(f[path], "-> "); link {
				c.Kind, c.Size, c.Target = guest.ChangedLink, 0, target
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

func (f changedFiles) ReadMountChange(_ context.Context, _ config.LinuxUser, _ config.MountName, path string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(f[path])), nil
}

func (changedFiles) ForgetMount(context.Context, config.LinuxUser, config.MountName) error {
	return nil
}

type mountedHere struct {
	done chan struct{}
	end  context.CancelFunc
}

func (m mountedHere) Done() <-chan struct{}               { return m.done }
func (m mountedHere) Close()                              { m.end(); <-m.done }
func (m mountedHere) Unmount(context.Context, bool) error { m.Close(); return nil }

func TestMounts(t *testing.T) {
	person, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", person)
	t.Setenv("PAGER", "")
	app := person + "/src/app"
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(app+"/"+path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(app+"/"+path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(app + "/" + path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var before []string
	for _, letter := range "abcdefghijklmnopqrstuvwxyz" {
		before = append(before, string(letter))
	}
	write("main.txt", strings.Join(before, "\n")+"\n")
	write("other.txt", "one\n")
	after := slices.Clone(before)
	after[1], after[24] = "BE", "WHY \x1b[2J"
	server := daemonHere(t)
	files := changedFiles{"main.txt": strings.Join(after, "\n") + "\n", "new\x1b.txt": "new\n", "Makefile": "all:\n\trm -rf /\n", "gone/x.bin": "\x00\x01"}
	server.Mounts.Guest = func(machine.Guest) (mounts.Guest, bool) { return files, true }
	ok(t, "agent", "create", "alice")
	ok(t, "agent", "create", "bob")

	fails(t, fault.ExitRejected, "--yes-all-of-it", "mount", "alice", person)
	fails(t, fault.ExitNotFound, "Check that it is", "mount", "alice", person+"/nothing")
	fails(t, fault.ExitInvalidArgs, "review, read or write", "mount", "alice", app, "--mode", "rw")
	ok(t, "config", "set", "mounts.never=~/src")
	fails(t, fault.ExitRejected, "mounts.never", "mount", "alice", app)
	ok(t, "config", "set", "mounts.never-=~/src")
	prints(t, app+" is /mnt/app of alice, for review\n", "mount", "alice", app)
	prints(t, app+" is /mnt/b of bob, for read\n", "mount", "bob", app, "--mode", "read", "--name", "b", "--keep")
	fails(t, fault.ExitRejected, "unmount AGENT app", "mount", "alice", app, "--name", "again")
	golden(t, "mounts", regexp.MustCompile(` {2,}`).ReplaceAllString(strings.ReplaceAll(ok(t, "mount", "list"), person, "~"), "  "))
	fails(t, fault.ExitRejected, "nothing to review", "review", "bob", "b")

	// The agent's text cannot control the terminal.
	golden(t, "review", ok(t, "review", "alice", "app"))
	golden(t, "review --stat", ok(t, "review", "alice", "app", "--stat"))
	if out := ok(t, "review", "alice", "app", "--json"); strings.Contains(out, "\x1b") || strings.Count(out, "\n") != 6 || !strings.Contains(out, `"path":"Makefile"`) {
		t.Error(out)
	}

	fails(t, fault.ExitInvalidArgs, "no terminal", "review", "accept", "alice", "app")
	fails(t, fault.ExitInvalidArgs, "--hunk FILE:N", "review", "accept", "alice", "app", "--hunks")
	fails(t, fault.ExitInvalidArgs, "not FILE:N", "review", "accept", "alice", "app", "--hunk", "main.txt")
	prints(t, "accepted main.txt\n", "review", "accept", "alice", "app", "--hunk", "main.txt:1")
	half := slices.Clone(before)
	half[1] = "BE"
	if text := read("main.txt"); text != strings.Join(half, "\n")+"\n" {
		t.Errorf("after one hunk it is %q", text)
	}
	t.Setenv("VISUAL", `sh -c 'ls -l $(dirname "$1"); cat "$@"' sh`)
	out := ok(t, "review", "open", "alice", "app", "main.txt")
	if !strings.Contains(out, "z\na\nBE\n") || strings.Contains(out, "x ") || !strings.Contains(out, "-rw------- ") || !strings.Contains(out, "1-agent-main.txt") {
		t.Error(out)
	}
	fails(t, fault.ExitRejected, "--force", "unmount", "alice", "app")
	if code, out, said := sandbox(t, "review", "accept", "alice", "app", "--yes"); code != 0 || !strings.Contains(out, "accepted new·.txt\n") || !strings.Contains(said, "left Makefile: ") || !strings.Contains(said, "--yes-marked") {
		t.Errorf("%d, %q, %q", code, out, said)
	}
	if _, err := os.Stat(app + "/Makefile"); err == nil {
		t.Error("what is marked was accepted")
	}
	prints(t, "accepted Makefile\n", "review", "accept", "alice", "app", "Makefile")
	if read("main.txt") != strings.Join(after, "\n")+"\n" || read("new\x1b.txt") != "new\n" || read("gone/x.bin") != "\x00\x01" {
		t.Error("not all was accepted")
	}
	fails(t, fault.ExitNotFound, "nothing to accept", "review", "accept", "alice", "app", "--yes")
	prints(t, "Nothing was changed.\n", "review", "alice", "app")

	files["out"] = "-> /etc"
	fails(t, fault.ExitNotFound, "nothing to accept", "review", "accept", "alice", "app", "--yes")
	prints(t, "accepted out\n", "review", "accept", "alice", "app", "--yes", "--outside-links")

	out = "missing"
	for line := range strings.SplitSeq(ok(t, "audit", "list"), "\n") {
		if strings.Contains(line, "review.accept") && strings.Contains(line, "app: Makefile") {
			out = ""
		}
	}
	if out != "" {
		t.Error("the audit does not have what was accepted: " + ok(t, "audit", "list"))
	}
	for _, word := range []string{"unmount alice ", "review accept alice "} {
		completes(t, "app\treview, ", strings.Split(word, " ")...)
	}
	ok(t, "unmount", "alice", "app", "--force")
	ok(t, "umount", "bob", "b")
	prints(t, "AGENT  NAME  MODE  FOLDER  AT  UNTIL  STATE\n", "mount", "ls")
}

// golden compares an output with a file. Its update flag writes the file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || got != string(want) {
		t.Errorf("%s prints %s\nwant %s, %v", name, got, want, err)
	}
}
