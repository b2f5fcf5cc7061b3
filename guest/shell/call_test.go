//go:build linux

package shell_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process/processtest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

func within(command string, d time.Duration) *guestpb.ShellRunRequest {
	return &guestpb.ShellRunRequest{Command: []byte(command), TimeoutNanos: int64(d)}
}

// The beginning and the end of long output are kept.
func TestOutputIsBounded(t *testing.T) {
	r := newRig(t, true)
	for _, tc := range []struct {
		name, command string
		total         uint64
		char          string
	}{
		{"lines", `yes a | head -c 1000000`, 1_000_000, "a\n"},
		{"one line", `head -c 1000000 /dev/zero | tr '\0' x; echo x >&2`, 1_000_000, "xx"},
		{"wide", `yes ü | tr -d '\n' | head -c 1000000`, 500_000, "ü"},
		{"no UTF-8", `head -c 1000000 /dev/zero | tr '\0' '\377'`, 1_000_000, "\xff\xff"},
	} {
		a := r.run(tc.command)
		o := a.Stdout
		unit := uint64(len([]rune(tc.char)))
		if o.Omitted != tc.total-15000 || string(o.Head) != strings.Repeat(tc.char, int(6000/unit)) || string(o.Tail) != strings.Repeat(tc.char, int(9000/unit)) {
			t.Errorf("%s: head %d, omitted %d, tail %d bytes", tc.name, len(o.Head), o.Omitted, len(o.Tail))
		}
	}
	a := r.run(`head -c 15000 /dev/zero | tr '\0' x`)
	if len(a.Stdout.Head) != 15000 || a.Stdout.Omitted != 0 || len(a.Stdout.Tail) != 0 {
		t.Errorf("at the limit: %d, %d, %d", len(a.Stdout.Head), a.Stdout.Omitted, len(a.Stdout.Tail))
	}
}

func TestInput(t *testing.T) {
	r := newRig(t, true)
	q := within("cat; read x; echo $?", 0)
	q.Stdin = []byte("given\x00\xff\n")
	if a := r.request(q); string(a.Stdout.Head) != "given\x00\xff\n1\n" {
		t.Errorf("%q", a.Stdout.Head)
	}
	big := within("cat | wc -c", 0)
	big.Stdin = bytes.Repeat([]byte("x"), 300<<10)
	if a := r.request(big); strings.TrimSpace(string(a.Stdout.Head)) != fmt.Sprint(300<<10) {
		t.Errorf("%q", a.Stdout.Head)
	}
}

// A command ends at its timeout or when it is cancelled: by SIGINT, SIGTERM, SIGKILL, or with the
// whole shell.
func TestTimeoutsAndCancel(t *testing.T) {
	all := newRig(t, true)
	t.Run("All", func(t *testing.T) { timeoutsAndCancel(t, all) })
}

func timeoutsAndCancel(t *testing.T, all *rig) {
	for _, tc := range []struct {
		name, command string // BEGUN marks that it runs
		ends          bool   // the shell
	}{
		{"sleep", "sh -c 'BEGUN; exec sleep 60'; echo never", false},
		{"a busy shell", "while :; do BEGUN; done", false},
		{"a pipeline", "yes | sh -c 'BEGUN; exec cat >/dev/null'", false},
		{"without SIGINT", "sh -c 'trap : INT; BEGUN; while :; do sleep 0.1; done'", false},
		{"without SIGINT and SIGTERM", "sh -c 'trap : INT TERM; BEGUN; while :; do sleep 0.1; done'", false},
		{"a shell that listens to nothing", "trap '' INT; BEGUN; while :; do :; done", true},
		{"reads the terminal", "sh -c 'BEGUN; exec cat </dev/tty'", false},
		{"stopped", "(sleep 0.2; BEGUN) & kill -STOP $$", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := all.in(t, strings.ReplaceAll(tc.name, " ", "-"))
			begun := filepath.Join(t.TempDir(), "begun")
			command := strings.ReplaceAll(tc.command, "BEGUN", ": >"+begun)
			for _, cancel := range []bool{false, true} {
				var a *guestpb.ShellRunResponse
				// Once it has begun within its time, on however busy a host, and listened to
				// SIGINT: a program that starts does not yet.
				for timeout := 300 * time.Millisecond; a == nil || !exists(begun) || strings.Contains(string(a.Stdout.Head), "never"); timeout *= 4 {
					if timeout > timetest.Limit {
						t.Fatalf("it does not begin, or its end is none: %q", a.GetStdout().GetHead())
					}
					_ = os.Remove(begun)
					r.run("X=1")
					allowed, done := timeout, make(chan error, 1)
					if cancel {
						allowed = 0
						go func() {
							for !exists(begun) {
								time.Sleep(time.Millisecond)
							}
							done <- r.cancel("")
						}()
					} else {
						done <- nil
					}
					a = r.tryFor(command, allowed)
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
				if err := os.Remove(begun); err != nil {
					t.Error(err)
				}
				if a.TimedOut == cancel || a.Cancelled != cancel || a.Code < 128 || a.Exited != tc.ends {
					t.Errorf("code %d, %s", a.Code, flags(a))
				}
				b := r.run("echo $X")
				if b.Restarted != tc.ends || (string(b.Stdout.Head) == "1\n") == tc.ends {
					t.Errorf("afterwards %q, %s", b.Stdout.Head, flags(b))
				}
			}
			if err := r.cancel(""); fault.KindOf(err) != fault.NotFound {
				t.Errorf("nothing to cancel: %v", err)
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// A call is cancelled by its id, whether it runs or waits. The response has the output so far.
func TestCancelNamed(t *testing.T) {
	r := newRig(t, true)
	start := func(name, command string) <-chan *guestpb.ShellRunResponse {
		q := within(command, 0)
		q.Call = name
		answer := make(chan *guestpb.ShellRunResponse, 1)
		go func() { answer <- r.request(q) }()
		return answer
	}
	r.run("true")
	first := start("first", "echo so far; echo problem >&2; X=1; sleep 60")
	r.transcript(has("problem\n"))
	waits, kept := start("waits", "echo never"), start("kept", "echo $X kept")
	timetest.Eventually(t, "two calls wait", func() bool { return r.sessions()[0].Waiting == 2 })
	if err := r.cancel("another"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a call that is not there: %v", err)
	}
	for _, name := range []string{"waits", "first"} {
		if err := r.cancel(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if a := <-waits; !a.Cancelled || a.Code != 130 || len(a.Stdout.GetHead()) > 0 {
		t.Errorf("the waiting call: code %d, %q, %s", a.Code, a.Stdout.GetHead(), flags(a))
	}
	// By SIGINT, or on a busy host by what comes after it, which bash mentions.
	if a := <-first; !a.Cancelled || a.Code < 128 || string(a.Stdout.Head) != "so far\n" || !strings.HasPrefix(string(a.Stderr.Head), "problem\n") {
		t.Errorf("the running call: code %d, %q, %q, %s", a.Code, a.Stdout.Head, a.Stderr.Head, flags(a))
	}
	if a := <-kept; a.Cancelled || a.Code != 0 || string(a.Stdout.Head) != "1 kept\n" {
		t.Errorf("the other call: code %d, %q, %s", a.Code, a.Stdout.Head, flags(a))
	}
	if err := r.cancel("first"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a call that has ended: %v", err)
	}
}

// When the caller leaves, the command ends but not the shell.
func TestCallerGoes(t *testing.T) {
	r := newRig(t, true)
	r.run("X=1")
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := r.Run(ctx, &guestpb.ShellRunRequest{Shell: &guestpb.Shell{Session: r.session}, Command: []byte("sleep 60")}); err == nil {
		t.Error("no error")
	}
	if a := r.want("echo $X", 0, "1\n"); a.Restarted {
		t.Error(flags(a))
	}
}

// The output of background processes is returned once, by the next call, separate from that call's
// own.
func TestLateOutput(t *testing.T) {
	r := newRig(t, true)
	r.run("(until [ -e ~/now ]; do sleep 0.05; done; echo late; echo later >&2) & disown")
	if err := os.WriteFile(filepath.Join(r.home, "now"), nil, 0o600); err != nil { // once the call has ended
		t.Fatal(err)
	}
	var late []string
	timetest.Eventually(t, "both lines", func() bool {
		for _, l := range r.want("echo mine", 0, "mine\n").Late {
			late = append(late, strings.Fields(string(l.Output.Head))...)
		}
		return len(late) >= 2
	})
	slices.Sort(late) // they are two streams
	if !slices.Equal(late, []string{"late", "later"}) {
		t.Errorf("late: %q", late)
	}
	if b := r.run("true"); len(b.Late) > 0 {
		t.Errorf("handed out twice: %v", b.Late)
	}
	r.transcript(has("later"))
	for i := range 40 {
		r.run(fmt.Sprintf("(while sleep 0.05; do echo from %d || exit; done) & disown", i))
	}
	var handed *guestpb.ShellRunResponse
	timetest.Eventually(t, "late output", func() bool { handed = r.run("echo on"); return len(handed.Late) > 0 })
	if string(handed.Stdout.Head) != "on\n" || len(handed.Late) > 32 {
		t.Errorf("%q, %d late ones", handed.Stdout.Head, len(handed.Late))
	}
	for _, l := range handed.Late {
		if n := strings.Count(l.Command, "from"); n != 1 || !strings.Contains(string(l.Output.Head), "from ") {
			t.Errorf("%q wrote %q", l.Command, l.Output.Head)
		}
	}
}

// Calls of one session take turns. Other sessions do not wait.
func TestTurns(t *testing.T) {
	r := newRig(t, true)
	r.run("N=0")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := r.try(within("M=$N; sleep 0.01; N=$((M+1))", 0)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	r.want("echo $N", 0, "20\n")

	busy, dir := make(chan struct{}), t.TempDir()
	begun, enough := filepath.Join(dir, "begun"), filepath.Join(dir, "enough")
	go func() {
		defer close(busy)
		r.run(": >'" + begun + "'; until test -e '" + enough + "'; do sleep 0.05; done")
	}()
	timetest.Eventually(t, "it begins", func() bool { return exists(begun) })
	if _, err := r.try(within("true", 200*time.Millisecond)); fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) == "" {
		t.Errorf("a call that waited in vain: %v", err)
	}
	other := within("echo other $N", 0)
	other.Shell = &guestpb.Shell{Session: "system"}
	if a := r.request(other); string(a.Stdout.Head) != "other\n" {
		t.Errorf("%q", a.Stdout.Head)
	}
	if err := os.WriteFile(enough, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-busy
}

// Beyond the limit, a new session replaces one in which nothing runs.
func TestSessionsAreBounded(t *testing.T) {
	r := newRig(t, true)
	in := func(i int, command string) (*guestpb.ShellRunResponse, error) {
		q := within(command, 0)
		q.Shell = &guestpb.Shell{Session: fmt.Sprint("s", i)}
		return r.try(q)
	}
	for i := range 16 {
		command := "sleep 100 & true"
		if i == 3 {
			command = "true"
		}
		if _, err := in(i, command); err != nil {
			t.Fatal(err)
		}
	}
	cgroups := len(r.sessions()) == 16 && processtest.Cgroup(t) != ""
	if _, err := in(16, "sleep 100 & true"); err != nil {
		t.Fatal(err)
	}
	list := r.sessions()
	if len(list) != 16 {
		t.Errorf("%d sessions", len(list))
	}
	if !cgroups {
		return
	}
	for _, s := range list {
		if s.Session == "s3" {
			t.Error("a session went in which something ran")
		}
	}
	if _, err := in(17, "true"); fault.KindOf(err) != fault.Rejected {
		t.Errorf("one too many: %v", err)
	}
	closed, err := r.CloseSession(t.Context(), &guestpb.CloseSessionRequest{Session: "s5"})
	if err != nil || closed.Closed != 1 {
		t.Errorf("%v, %v", closed, err)
	}
	if a, err := in(17, "echo fine"); err != nil || a.Restarted {
		t.Errorf("%v %v", a, err)
	}
	if _, err := r.CloseSession(t.Context(), &guestpb.CloseSessionRequest{Session: "s5"}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("closed twice: %v", err)
	}
}

// Background processes end with their shell.
func TestNothingOutlivesTheShell(t *testing.T) {
	r := newRig(t, true)
	mark := fmt.Sprint("31", os.Getpid())
	r.run("setsid sh -c '(sleep " + mark + " &) ; sleep " + mark + "' & disown; nohup sleep " + mark + " >/dev/null 2>&1 & exit 4")
	r.run("true")
	if processtest.Cgroup(t) == "" {
		t.Skip("needs a cgroup2")
	}
	timetest.Eventually(t, "no process is left", func() bool { return running("sleep\x00"+mark) == 0 })
}

// running counts the processes with a command line.
func running(line string) (n int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range all {
		if b, _ := os.ReadFile(p); strings.Contains(string(b), line) {
			n++
		}
	}
	return n
}
