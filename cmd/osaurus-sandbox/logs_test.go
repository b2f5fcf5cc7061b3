package main

import (
	"os"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/internal/fault"
)

// Why a daemon does not come up can be read where none runs.
func TestLogsWithoutDaemon(t *testing.T) {
	home := config.Home(t.TempDir())
	t.Setenv(config.HomeVariable, string(home))
	if _, err := home.Make(home.Logs()); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		control.DaemonLog(home): "time=2026-01-02T03:04:05Z level=INFO msg=begun\n",
		control.StartLog(home):  "osaurus-sandbox: open database \x1b[31m: malformed\n",
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
	if code, _, _ := sandbox(t, "logs", "--source", "guest"); code != fault.ExitInvalidArgs {
		t.Errorf("a log that is none: %d", code)
	}
	for _, line := range []string{"-f", "--agent=alice"} {
		if code, _, _ := sandbox(t, "logs", line); code != fault.ExitUnavailable {
			t.Errorf("%s, which takes a daemon: %d", line, code)
		}
	}
}
