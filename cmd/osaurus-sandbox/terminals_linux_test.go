package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// trySessions uses persistent shells.
func trySessions(t *testing.T) {
	ok(t, "exec", "alice", "--session", "s", "--", "cd /tmp; A='x  y'; f() { echo from f; }")
	if out := ok(t, "exec", "alice", "--session", "s", "--", `pwd; echo "$A"; f`); out != "/tmp\nx  y\nfrom f\n" {
		t.Errorf("%q", out)
	}
	if out := ok(t, "exec", "alice", "--session", "s", "--", "printf", "%s|", "$A", "it's"); out != "$A|it's|" {
		t.Errorf("several words: %q", out)
	}
	if code, out, stderr := sandbox(t, "exec", "alice", "--session", "s", "--", "echo out; echo err >&2; (exit 9)"); code != 9 || out != "out\n" || stderr != "err\n" {
		t.Errorf("%d, %q, %q", code, out, stderr)
	}
	var end struct {
		Stdout    string
		ExitCode  int  `json:"exit_code"`
		TimedOut  bool `json:"timed_out"`
		Restarted bool
		Dir       string
	}
	var code int
	var out, stderr string
	for timeout := time.Second; !strings.Contains(out, "begun") && timeout < 2*time.Minute; timeout *= 4 {
		code, out, stderr = sandbox(t, "exec", "alice", "--session", "s", "--json", "--timeout", timeout.String(), "--", "cd /usr; echo begun; sleep 1000")
	}
	if err := json.Unmarshal([]byte(out), &end); err != nil || code != end.ExitCode || !end.TimedOut || end.Restarted || end.Stdout != "begun\n" || end.Dir != "/usr" {
		t.Errorf("%d, %+v, %v, %s", code, end, err, stderr)
	}
	for _, wrong := range [][]string{{"--session", "../s"}, {"--session", "s", "--tty"}, {"--session", "s", "--root"}} {
		fails(t, exitSandbox, "advice: ", append(append([]string{"exec", "alice"}, wrong...), "--", "true")...)
	}
	cancelled := start(t, "exec", "alice", "--session", "s", "--", "A=here; echo so far; sleep 1000")
	timetest.Eventually(t, "the command runs", func() bool {
		_, shown, _ := sandbox(t, "session", "show", "alice", "s")
		return strings.Contains(ok(t, "session", "list"), "alice  s        command") && strings.HasSuffix(shown, "\nso far\n")
	})
	cancelled.signal(t, syscall.SIGINT)
	cancelled.await(t, "so far\n")
	_ = cancelled.Wait()
	// On a busy host, SIGINT may take effect too late, and SIGTERM follows.
	if code := cancelled.ProcessState.ExitCode(); code != exitInterrupted+int(syscall.SIGINT) && code != exitInterrupted+int(syscall.SIGTERM) {
		t.Errorf("Ctrl-C: %d, %s", code, cancelled.err.String())
	}
	prints(t, "here\n", "exec", "alice", "--session", "s", "--", "echo $A")
	shows(t, "alice  s        idle", "session", "list")
	shows(t, "$ cd /usr; echo begun; sleep 1000\nbegun\n", "session", "show", "alice", "s")
}

// tryJobs uses jobs.
func tryJobs(t *testing.T) {
	id := strings.TrimSpace(ok(t, "job", "start", "alice", "--env", "A=b", "--label", "three lines", "--", "sh", "-c", "echo $A; echo 2; echo 3; sleep 1; exit 6"))
	code, out, stderr := sandbox(t, "job", "wait", "alice", id)
	if code != 6 || !strings.Contains(out, "exit 6") || !strings.Contains(out, "three lines") {
		t.Errorf("wait: %d, %s%s", code, out, stderr)
	}
	prints(t, "2\n3\n", "job", "tail", "alice", id[:8], "-n", "2")
	prints(t, "b\n2\n3\n", "job", "tail", "alice", id, "--all", "-f")
	var shown struct{ LogFile string }
	if err := json.Unmarshal([]byte(ok(t, "job", "show", "alice", id, "--json")), &shown); err != nil {
		t.Fatal(err)
	}
	prints(t, "b\n2\n3\n", "exec", "alice", "--", "cat", shown.LogFile)
	long := strings.TrimSpace(ok(t, "job", "start", "alice", "--", "sleep", "1000"))
	if out := ok(t, "job", "list", "alice"); !strings.Contains(out, shortID(long)+"  running") || !strings.Contains(out, "sleep 1000") {
		t.Errorf("list: %s", out)
	}
	fails(t, exitSandbox, "still runs", "job", "wait", "alice", long, "--timeout", "100ms")
	ok(t, "job", "kill", "alice", long, "--kill")
	fails(t, 128+9, "", "job", "wait", "alice", long)
	var job struct{ Signal int }
	if err := json.Unmarshal([]byte(ok(t, "job", "show", "alice", long, "--json")), &job); err != nil || job.Signal != 9 {
		t.Errorf("%+v %v", job, err)
	}
	for _, text := range []string{"ffff", strings.Repeat("0", 32)} {
		fails(t, fault.ExitNotFound, "", "job", "show", "alice", text)
	}
}

// completes waits until a word is completed with want. Completion offers nothing if the daemon does not
// answer soon.
func completes(t *testing.T, want string, line ...string) {
	t.Helper()
	timetest.Eventually(t, fmt.Sprintf("%q is completed with %q", line, want), func() bool {
		return strings.Contains(ok(t, append([]string{"__complete"}, line...)...), want)
	})
}

// tryCompletion asks for completions.
func tryCompletion(t *testing.T) {
	id := strings.TrimSpace(ok(t, "job", "start", "alice", "--", "true"))
	for _, tc := range []struct {
		line []string
		want string
	}{
		{[]string{"shell", ""}, "alice\n"}, {[]string{"job", "start", "al"}, "alice\n"}, {[]string{"session", "show", "alice", ""}, "s\n"},
		{[]string{"exec", "alice", "--session", ""}, "s\n"}, {[]string{"job", "wait", "alice", ""}, id + "\ttrue\n"},
		{[]string{"agent", "set", "al"}, "alice\n"}, {[]string{"agent", "set", "alice", ""}, "limits.memoryMB=\n"}, {[]string{"config", "set", ""}, "cpus=\n"},
		{[]string{"tool", "describe", "alice", ""}, "sandbox_read_file\tRead a file\n"}, {[]string{"logs", "--agent", ""}, "alice\n"}, {[]string{"mcp", "install", ""}, "zed\n"},
	} {
		completes(t, tc.want, tc.line...)
	}
}

// tryInput checks what a command reads of the input, and what it leaves.
func tryInput(t *testing.T) {
	for _, test := range []struct{ args, want string }{{"exec alice -- cat", "given"}, {"exec alice -n -- cat", ""}} {
		given := strings.NewReader("given")
		var out, errs bytes.Buffer
		code := run(t.Context(), console{given, &out, &errs}, strings.Fields(test.args))
		if code != 0 || out.String() != test.want || given.Len() != len("given")-len(test.want) {
			t.Errorf("%s: %d, %q, %d bytes are left, %s", test.args, code, out.String(), given.Len(), &errs)
		}
	}
}

// tryTerminal runs a program that leaves the terminal in a bad state.
func tryTerminal(t *testing.T) {
	term := onTerminal(t, nil, "exec", "alice", "--tty", "--", "printf", `\033[?1049h\033[?25lso`)
	if code, shown := term.end(); code != 0 || !strings.HasSuffix(shown, "\x1b[?1049h\x1b[?25lso"+resetScreen+leaveOther) {
		t.Errorf("%d, %q", code, shown)
	}
}

// TestTerminals uses sessions, jobs and terminals with this host as the guest.
func TestTerminals(t *testing.T) {
	hostHome(t)
	t.Run("input", tryInput)
	t.Run("terminal", tryTerminal)
	t.Run("sessions", trySessions)
	t.Run("jobs", tryJobs)
	t.Run("completion", tryCompletion)
	t.Run("upgrade", tryUpgrade)
}

// tryUpgrade checks the note that the daemon is another build.
func tryUpgrade(t *testing.T) {
	for _, command := range []string{"status", "up"} {
		code, out, stderr := sandbox(t, command, "--json")
		if code != 0 || !json.Valid([]byte(out)) || !strings.Contains(stderr, "the daemon is an earlier one: another build") || !strings.Contains(stderr, "down --daemon") {
			t.Errorf("%s: %d, %s, %s", command, code, out, stderr)
		}
	}
}

// tryTerminalsInAGuest does the same in a real guest, and checks what survives a restart.
func tryTerminalsInAGuest(t *testing.T) {
	t.Run("sessions", trySessions)
	t.Run("jobs", tryJobs)
	if out := ok(t, "exec", "alice", "--session", "s", "--", "whoami; pwd"); out != "agent-alice\n/usr\n" {
		t.Errorf("%q", out)
	}
	id := strings.TrimSpace(ok(t, "job", "start", "alice", "--", "sleep", "1000"))
	ok(t, "restart")
	fails(t, fault.ExitNotFound, "", "job", "show", "alice", id)
	shows(t, "ended", "session", "list", "alice")
	ok(t, "exec", "alice", "--session", "s", "--", "echo again")
	if out := ok(t, "session", "show", "alice", "s"); !strings.Contains(out, "begun") || !strings.Contains(out, "$ echo again\nagain\n") {
		t.Errorf("%s", out)
	}
	ok(t, "session", "close", "alice", "s")
	fails(t, fault.ExitNotFound, "", "session", "show", "alice", "s")
}
