//go:build linux

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The test runs itself as the command, so that what it starts is nobody else's
// child.
func TestMain(m *testing.M) {
	if script := os.Getenv("LEFTOVERS_SCRIPT"); script != "" {
		grace, err := time.ParseDuration(os.Getenv("LEFTOVERS_GRACE"))
		if err != nil {
			panic(err)
		}
		code, left, err := run([]string{"sh", "-c", script}, grace)
		if err != nil {
			code = 99
		}
		os.Stdout.WriteString(strings.Join(left, "\n"))
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func TestRun(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		code         int
		left         []string
	}{
		{"nothing", "true", 0, nil},
		{"its exit code", "exit 37", 37, nil},
		{"a killed command", "kill -9 $$", 1, nil},
		{"a file that is gone again", `touch "$TMPDIR/a"; rm "$TMPDIR/a"`, 0, nil},
		{"a process that ends soon", "setsid sleep 0.1 &", 0, nil},
		{"an orphan is gone when it has ended", `sh -c 'sleep 0.2 & echo $! > "$TMPDIR/pid"'; p=$(cat "$TMPDIR/pid"); rm "$TMPDIR/pid"; while kill -0 $p 2>/dev/null; do sleep 0.1; done`, 0, nil},
		{"a file", `mkdir "$TMPDIR/a"; touch "$TMPDIR/a/b"`, 0, []string{"file: /tmp/osaurus-test-"}},
		{"a detached process", "(setsid sleep 98765 &)", 0, []string{"sleep 98765"}},
		{"a process of a detached process", "(setsid sh -c 'sleep 98764; true' &)", 0, []string{"sleep 98764", "sh -c"}},
		{"a deaf process", `(setsid sh -c 'trap "" TERM INT HUP; while :; do sleep 98763; done' &)`, 0, []string{"98763"}},
		{"a process that cleared its environment", "(setsid env -i sleep 98762 &)", 0, []string{"sleep 98762"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			grace := 30 * time.Second // for what ends by itself, on however busy a host
			if len(tc.left) > 0 {
				grace = 300 * time.Millisecond
			}
			cmd.Env = append(os.Environ(), "LEFTOVERS_SCRIPT="+tc.script, "LEFTOVERS_GRACE="+grace.String())
			out, _ := cmd.Output()
			if code := cmd.ProcessState.ExitCode(); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if len(tc.left) == 0 && len(out) > 0 {
				t.Errorf("left behind: %s", out)
			}
			for _, want := range tc.left {
				if !strings.Contains(string(out), want) {
					t.Errorf("left behind %q, want %q in it", out, want)
				}
			}
		})
	}
}
