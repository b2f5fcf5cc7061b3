package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/internal/timetest"
)

// If asProgram is set, the test binary runs as the program itself, to test signals and exit codes.
const asProgram = "OSAURUS_SANDBOX_TEST_MAIN"

// seenWithin bounds waits for immediate effects, on a host that is busy with other guests.
const seenWithin = timetest.Limit

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

func sandbox(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = run(t.Context(), console{strings.NewReader(""), &out, &errOut}, args)
	return code, out.String(), errOut.String()
}

// ok runs a command line that must work, and returns its output.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	code, out, stderr := sandbox(t, args...)
	if code != 0 {
		t.Fatalf("%v: %d, %s", args, code, stderr)
	}
	return out
}

// prints is ok for a command line with this output.
func prints(t *testing.T, want string, args ...string) {
	t.Helper()
	if out := ok(t, args...); out != want {
		t.Errorf("%v: %q, want %q", args, out, want)
	}
}

// shows is ok for a command line whose output contains want.
func shows(t *testing.T, want string, args ...string) {
	t.Helper()
	if out := ok(t, args...); !strings.Contains(out, want) {
		t.Errorf("%v: no %q in %s", args, want, out)
	}
}

// fails runs a command line that must fail with an exit code and an error that contains want.
func fails(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	if got, out, stderr := sandbox(t, args...); got != code || !strings.Contains(stderr, want) {
		t.Errorf("%v: %d, want %d and %q: %s%s", args, got, code, want, out, stderr)
	}
}

func TestExitCodeForEveryKind(t *testing.T) {
	seen := map[int]fault.Kind{}
	for _, kind := range fault.Kinds() {
		code := kind.ExitCode()
		if other, taken := seen[code]; taken || code == 0 || code >= exitSandbox {
			t.Errorf("%s has exit code %d, as has %q", kind, code, other)
		}
		seen[code] = kind
	}
}

func TestFinish(t *testing.T) {
	ctx := context.Background()
	killed, kill := context.WithCancelCause(ctx)
	kill(interrupted{syscall.SIGTERM})
	for _, tc := range []struct {
		name string
		ctx  context.Context
		err  error
		code int
		text string
	}{
		{"nothing", ctx, nil, 0, ""},
		{"a fault", ctx, fault.Newf(fault.NotFound, "open pack", "x", "gone").Advise("Look again."), 7, "osaurus-sandbox: open pack x: gone\nadvice: Look again.\n"},
		{"anything else", ctx, errors.New("broken"), 1, "osaurus-sandbox: broken\n"},
		{"a code alone", ctx, exit{code: 37}, 37, ""},
		{"a code with a reason", ctx, exit{127, fault.New(fault.NotFound, "run", "x", nil).Advise("Install it.")}, 127, "osaurus-sandbox: run x\nadvice: Install it.\n"},
		{"a signal", killed, context.Canceled, 143, "osaurus-sandbox: ended by a signal: terminated\n"},
		{"the command's code after a signal", killed, exit{code: 3}, 3, ""},
	} {
		var w bytes.Buffer
		if code := finish(tc.ctx, &w, tc.err); code != tc.code || w.String() != tc.text {
			t.Errorf("%s: %d, %q", tc.name, code, w.String())
		}
	}
}

func TestForSandbox(t *testing.T) {
	ctx := context.Background()
	if err := forSandbox(ctx, fault.New(fault.Timeout, "boot guest", "", nil)); finish(ctx, new(bytes.Buffer), err) != exitSandbox {
		t.Errorf("the sandbox's own failure ends as %v", err)
	}
	if err := forSandbox(ctx, exit{code: 5}); finish(ctx, new(bytes.Buffer), err) != 5 {
		t.Errorf("the command's code ends as %v", err)
	}
}

func TestCannotRun(t *testing.T) {
	for kind, code := range map[fault.Kind]int{fault.NotFound: exitNoCommand, fault.Rejected: exitCannotRun, fault.Timeout: exitSandbox} {
		err := forSandbox(context.Background(), cannotRun(fault.New(kind, engine.OpRun, "x", nil)))
		if got := finish(context.Background(), new(bytes.Buffer), err); got != code {
			t.Errorf("a command that is refused with %s ends with %d, want %d", kind, got, code)
		}
	}
	for _, before := range []error{fault.New(fault.NotFound, "", "", fault.New(fault.NotFound, "find agent", "x", nil)), fault.New(fault.NotFound, "open pack", "x", nil), fault.New(fault.Rejected, "start sandbox", "", nil)} {
		if got := finish(context.Background(), new(bytes.Buffer), forSandbox(context.Background(), cannotRun(before))); got != exitSandbox {
			t.Errorf("with %q a command ends with %d", before, got)
		}
	}
}

// A wrong command line is refused before anything starts, with advice.
func TestMisuse(t *testing.T) {
	t.Setenv(config.HomeVariable, t.TempDir())
	for line, advice := range map[string]string{
		"agnet list":                "Did you mean osaurus-sandbox agent? ",
		"agent lsit":                "Did you mean osaurus-sandbox agent list or set? ",
		"nonsense":                  "See osaurus-sandbox --help.",
		"config nonsense":           "See osaurus-sandbox config --help.",
		"mcp install":               "Write osaurus-sandbox mcp install CLIENT [flags]. ",
		"secret set alice":          "Write osaurus-sandbox secret set AGENT NAME",
		"status --jsno":             "See osaurus-sandbox status --help.",
		"version extra":             "Write osaurus-sandbox version",
		"config set":                "Write osaurus-sandbox config set KEY=VALUE...",
		"config set cpus":           "KEY=VALUE",
		"config set cpus=99":        "",
		"config set colour=1":       "",
		"config get nosuch":         "Keys: ",
		"memory delete alice":       "--all",
		"mcp --profile fat":         "",
		"job start alice make":      "--",
		"plugin register alice":     "~/plugins",
		"artifacts save 1 - --json": "",
		"events --agent a --agents": "See osaurus-sandbox events --help.",
	} {
		code, stdout, stderr := sandbox(t, strings.Fields(line)...)
		if code != fault.ExitInvalidArgs || stdout != "" || !strings.Contains(stderr, "\nadvice: ") || !strings.Contains(stderr, advice) {
			t.Errorf("%s: exit code %d, %q, %q", line, code, stdout, stderr)
		}
	}
}

// Aliases from other programs work, except those that would delete the guest.
func TestAliases(t *testing.T) {
	root := newRoot(console{})
	for line, want := range map[string]string{
		"agent ls": "agent list", "agent rm": "agent delete", "agent remove": "agent delete", "plugin delete": "plugin remove", "pack rm": "pack remove", "artifact list": "artifacts list",
		"rm": "", "delete": "", "ls": "",
	} {
		cmd, _, _ := root.Find(strings.Fields(line))
		if got := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "osaurus-sandbox"), " "); got != want {
			t.Errorf("%s is %q", line, got)
		}
	}
}

func TestConfig(t *testing.T) {
	home := config.Home(t.TempDir())
	t.Setenv(config.HomeVariable, string(home))
	ok(t, "config", "set", "cpus=4", "network=none")
	code, out, _ := sandbox(t, "config", "show")
	var shown map[string]any
	if err := json.Unmarshal([]byte(out), &shown); err != nil || code != 0 {
		t.Fatalf("config show: %d, %v\n%s", code, err, out)
	}
	if fmt.Sprintln(shown["cpus"], shown["network"], shown["diskGB"]) != "4 none 8\n" {
		t.Errorf("config show: %s", out)
	}
	// A wrong value changes nothing.
	fails(t, fault.ExitInvalidArgs, "", "config", "set", "cpus=2", "diskGB=0")
	if text, _ := os.ReadFile(home.SettingsFile()); string(text) != "{\n  \"cpus\": 4,\n  \"network\": \"none\"\n}\n" {
		t.Errorf("the file is %s", text)
	}
	if err := os.WriteFile(home.SettingsFile(), []byte(`{"cpus": 4`), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, fault.ExitInvalidArgs, "sandbox.json:1:", "config", "show")
}

func TestVersion(t *testing.T) {
	if code, out, _ := sandbox(t, "--version"); code != 0 || out != "osaurus-sandbox "+build()+"\n" {
		t.Errorf("--version: %d, %s", code, out)
	}
	code, out, _ := sandbox(t, "version", "--json")
	var v map[string]string
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 || v["version"] == "" || v["platform"] == "" {
		t.Errorf("version --json: %d, %v, %s", code, err, out)
	}
}

// If the output's reader goes away, the program cleans up and ends silently, as pipelines expect.
func TestBrokenPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	for _, args := range [][]string{{"version"}, {"version", "--json"}} {
		var said bytes.Buffer
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), asProgram+"=1", config.HomeVariable+"="+t.TempDir())
		cmd.Stdout, cmd.Stderr = w, &said
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitInterrupted+int(syscall.SIGPIPE) || said.Len() > 0 {
			t.Errorf("%v with its output closed ends with %v, %q", args, err, said.String())
		}
	}
}

func TestProgressOnNoTerminal(t *testing.T) {
	var w bytes.Buffer
	show := showProgress(&w)
	show(progress.Event{Step: "download a.iso", Total: 69_206_016})
	show(progress.Event{Step: "download a.iso", Done: 34_500_000, Total: 69_206_016, Rate: 11.2e6, Left: 3 * time.Second})
	show(progress.Event{Note: "Alpine's host cannot be reached."})
	show(progress.Event{Step: "download a.iso", Done: 69_206_016, Total: 69_206_016, Rate: 11.2e6, Finished: true})
	show(progress.Event{Step: "unpack"})
	show(progress.Event{Step: "unpack", Finished: true})
	want := "download a.iso\nAlpine's host cannot be reached.\ndownload a.iso: 69.2 MB, 11.2 MB/s, done\nunpack\nunpack: done\n"
	if w.String() != want {
		t.Errorf("%q", w.String())
	}
}

func TestProgressOnATerminal(t *testing.T) {
	e := progress.Event{Step: "download a.iso", Done: 34_603_008, Total: 69_206_016, Rate: 11.2e6, Left: 3 * time.Second}
	end := e
	end.Finished = true
	for _, tc := range []struct {
		e       progress.Event
		columns int
		want    string
	}{
		{e, 120, "download a.iso                 [\x1b[32m############\x1b[0m            ] 34.6 of 69.2 MB, 11.2 MB/s, 3s left"},
		{e, 30, "download a.iso 34.6 of 69.2 M"},
		{end, 120, "download a.iso                 [############            ] 34.6 MB, 11.2 MB/s, \x1b[32mdone\x1b[0m\n"},
	} {
		var w bytes.Buffer
		drawBar(&w, tc.e, tc.columns, true)
		if w.String() != clearLine+tc.want {
			t.Errorf("%q, want %q", w.String(), tc.want)
		}
	}
}
