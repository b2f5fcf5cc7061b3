package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// copied is the output of cp --json.
type copied struct {
	Files   int
	Bytes   int64
	LeftOut []string `json:"left_out"`
}

func copies(t *testing.T, args ...string) (sum copied) {
	t.Helper()
	if err := json.Unmarshal([]byte(ok(t, append([]string{"cp", "--json"}, args...)...)), &sum); err != nil {
		t.Error(err)
	}
	return sum
}

func written(t *testing.T, file, text string) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	return file
}

func holds(t *testing.T, file, want string) {
	t.Helper()
	if text, err := os.ReadFile(file); err != nil || string(text) != want {
		t.Errorf("%s: %q, %v", file, text, err)
	}
}

// TestCp copies with this host as the guest.
func TestCp(t *testing.T) {
	hostHome(t)
	here, there := t.TempDir(), t.TempDir()
	room := "alice:" + there
	project := filepath.Join(here, "project")
	written(t, filepath.Join(project, "src", "a b.c"), "in C")
	file := written(t, filepath.Join(here, "notes:1"), "one")
	t.Chdir(here)
	written(t, "\xff", "")

	if sum := copies(t, "project", room); sum.Files != 1 || sum.Bytes != 4 || sum.LeftOut != nil {
		t.Errorf("%+v", sum)
	}
	ok(t, "cp", project, room+"/as")
	ok(t, "cp", "./notes:1", file, room+"/as")
	ok(t, "cp", file, room+"/project/src/a b.c")
	holds(t, filepath.Join(there, "project/src/a b.c"), "one")
	holds(t, filepath.Join(there, "as/src/a b.c"), "in C")
	holds(t, filepath.Join(there, "as/notes:1"), "one")
	var errs bytes.Buffer
	if code := run(t.Context(), console{strings.NewReader("typed"), &errs, &errs}, []string{"cp", "-", room + "/in"}); code != 0 {
		t.Fatalf("%d, %s", code, &errs)
	}
	holds(t, filepath.Join(there, "in"), "typed")

	if err := os.Symlink("/etc/passwd", filepath.Join(there, "as", "out")); err != nil {
		t.Fatal(err)
	}
	if sum := copies(t, room+"/as", "back"); sum.Files != 2 || len(sum.LeftOut) != 1 || sum.LeftOut[0] != "as/out" {
		t.Errorf("%+v", sum)
	}
	holds(t, "back/src/a b.c", "in C")
	if _, out, stderr := sandbox(t, "cp", room+"/as/", "back"); out != "" || !strings.Contains(stderr, "skipped") || !strings.Contains(stderr, "as/out") {
		t.Errorf("%q, %q", out, stderr)
	}
	holds(t, "back/as/src/a b.c", "in C")
	ok(t, "cp", room+"/as/notes:1", room+"/in", "back")
	holds(t, "back/in", "typed")
	prints(t, "typed", "cp", room+"/in", "-")

	for code, wrong := range map[int][][]string{
		fault.ExitInvalidArgs: {
			{"project", "other"}, {"alice:a", "bob:b"}, {"alice:a", "bob:b", "c"}, {"alice:a", "-", "--json"}, {"-", "project", room}, {"-", room + "/"}, {room + "/as", "-"},
			{room + "/as", ""}, {"", room}, {"project", "-", room + "/d/"}, {"-", "alice:"}, {"-", room + "/.."}, {"\xff", room}, {"alice:/", "."}, {"project"},
		},
		fault.ExitNotFound: {{"no such", room}, {room + "/nothing", "."}, {"project", room + "/no/such"}, {room + "/in", room + "/as", "none"}, {"project", "nobody:"}},
		fault.ExitRejected: {{"-", room + "/as"}, {"project", room + "/in"}, {room + "/as", "./notes:1"}},
	} {
		for _, args := range wrong {
			fails(t, code, failurePrefix, append([]string{"cp"}, args...)...)
		}
	}
	if out := ok(t, "audit", "list"); strings.Count(out, "machine.up") != 2 {
		t.Errorf("a start is on record that was none:\n%s", out)
	}
	for _, dir := range []string{here, there, filepath.Join(here, "back")} {
		timetest.Eventually(t, "interrupted copies are cleaned up", func() bool {
			left, _ := filepath.Glob(dir + "/.osaurus-copy*")
			return left == nil
		})
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if code := run(ended, console{strings.NewReader(""), &errs, &errs}, []string{"cp", room + "/in", filepath.Join(here, "never")}); code == 0 {
		t.Error("what was given up ends well")
	}
	if _, err := os.Stat(filepath.Join(here, "never")); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}

// Ctrl-C while input is read leaves no file.
func TestInputIsGivenUp(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	in, typed := io.Pipe()
	defer typed.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = io.WriteString(typed, "some") // the reader now waits for more
		if list, err := os.ReadDir(os.TempDir()); err != nil || len(list) > 0 {
			t.Errorf("whoever kills it now leaves %v, %v", list, err)
		}
		cancel()
	}()
	if _, err := keepInput(ctx, in); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if list, err := os.ReadDir(os.TempDir()); err != nil || len(list) > 0 {
		t.Errorf("it leaves %v, %v", list, err)
	}
}

// tryCp copies into a room and out of it, with the agent's rights.
func tryCp(t *testing.T, home config.Home) {
	here := t.TempDir()
	written(t, filepath.Join(here, "project", "src", "main"), secretToken)
	ok(t, "cp", filepath.Join(here, "project"), "alice:")
	holds(t, filepath.Join(home.AgentHome("alice"), "project", "src", "main"), secretToken)
	ok(t, "cp", filepath.Join(here, "project"), "alice:/tmp/copy")
	if code, out := as(t, "alice", "stat -c %U /tmp/copy/src/main; ls -A ~ /tmp | grep osaurus-copy"); code != 1 || out != "agent-alice" {
		t.Errorf("%d, %q", code, out)
	}
	prints(t, secretToken, "cp", "alice:/tmp/copy/src/main", "-")
	ok(t, "cp", "alice:/tmp/copy", "alice:project", here)
	holds(t, filepath.Join(here, "copy", "src", "main"), secretToken)
	fails(t, fault.ExitExecution, "ermission denied", "cp", filepath.Join(here, "project"), "alice:/usr/local")
	if code, _, stderr := sandbox(t, "cp", "bob:/root", here); code == 0 || !strings.Contains(stderr, "ermission denied") {
		t.Errorf("what he may not read: %d, %s", code, stderr)
	}
}
