package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/homelock"
)

// Each start reports its own daemon's output, and the log keeps earlier ones.
func TestLastWords(t *testing.T) {
	home := config.Home(t.TempDir())
	t.Setenv(asProgram, "1")
	for n, setting := range []string{"first", "second"} {
		if err := config.WriteFile(home.SettingsFile(), []byte(`{"`+setting+`": 1}`)); err != nil {
			t.Fatal(err)
		}
		ended, err := startDaemon(home, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !strings.Contains(err.Error(), setting) || n == 1 && strings.Contains(err.Error(), "first") {
			t.Errorf("%s: %v", setting, err)
		}
	}
	words, err := os.ReadFile(control.DaemonLog(home))
	if err != nil || !bytes.Contains(words, []byte("first")) || !bytes.Contains(words, []byte("second")) {
		t.Errorf("kept is %s, %v", words, err)
	}
}

// down does not report success while a daemon still has the home.
func TestDownWhileADaemonEnds(t *testing.T) {
	home := config.Home(t.TempDir())
	t.Setenv(config.HomeVariable, string(home))
	lock, err := homelock.Take(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var out, stderr bytes.Buffer
	if code := run(ctx, console{strings.NewReader(""), &out, &stderr}, []string{"down", "--json"}); code == 0 || out.Len() > 0 {
		t.Errorf("%d, %s%s", code, out.String(), stderr.String())
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	shows(t, `"daemon": false`, "down", "--json")
}

// Without a daemon, logs prints why none started.
func TestLogsWithoutDaemon(t *testing.T) {
	home := config.Home(t.TempDir())
	t.Setenv(config.HomeVariable, string(home))
	if _, err := home.Make(home.Logs()); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		control.DaemonLog(home) + config.OldLog: "time=2026-01-02T03:04:05Z level=INFO msg=begun\n",
		control.DaemonLog(home):                 "osaurus-sandbox: open database \x1b[31m: malformed\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		args      []string
		has, lack string
	}{
		{nil, "msg=begun", "\x1b"},
		{nil, "malformed", "\x1b"},
		{[]string{"--json"}, `"text":"level=INFO msg=begun"`, "\x1b"},
		{[]string{"--since", "2026-02-01"}, "malformed", "begun"},
		{[]string{"--source", "console"}, "", "malformed"},
	} {
		code, out, stderr := sandbox(t, append([]string{"logs"}, tc.args...)...)
		if code != 0 || !strings.Contains(out, tc.has) || strings.Contains(out, tc.lack) || !strings.Contains(stderr, "No daemon answers") {
			t.Errorf("%v: %d, %q, %q", tc.args, code, out, stderr)
		}
	}
	fails(t, fault.ExitInvalidArgs, "", "logs", "--source", "guest")
	for _, line := range []string{"-f", "--agent=alice"} {
		fails(t, fault.ExitUnavailable, "", "logs", line)
	}
}
