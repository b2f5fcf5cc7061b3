package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"filippo.io/age"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/agefile"
)

const (
	someAgent   = "0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E"
	secretToken = "canary-7d20e5"
)

// secretHome returns a home that keeps its secrets in a file.
func secretHome(t *testing.T) config.Home {
	t.Helper()
	home := config.Home(t.TempDir())
	t.Setenv(config.HomeVariable, string(home))
	t.Setenv(agefile.PassphraseFileVariable, "")
	t.Setenv(asProgram, "1") // commands start this program as the daemon
	ok(t, "config", "set", "secrets=file", "autoStart=false")
	t.Cleanup(func() { endDaemon(t) })
	return home
}

// fed runs a command line with this standard input.
func fed(t *testing.T, input string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = run(t.Context(), console{strings.NewReader(input), &out, &errOut}, args)
	if strings.Contains(out.String()+errOut.String(), secretToken) {
		t.Errorf("%v shows the secret: %s%s", args, &out, &errOut)
	}
	return code, out.String(), errOut.String()
}

// feed is fed for a command line that must work.
func feed(t *testing.T, input string, args ...string) {
	t.Helper()
	if code, _, stderr := fed(t, input, args...); code != 0 {
		t.Fatalf("%v: %d, %s", args, code, stderr)
	}
}

func TestSecret(t *testing.T) {
	home := secretHome(t)
	for _, tc := range []struct {
		input string
		args  []string
		code  int
		want  string // in the output or the error
	}{
		{"", []string{"secret", "list", someAgent}, 0, ""},
		{secretToken + "\n", []string{"secret", "set", someAgent, "TOKEN"}, 0, "kept TOKEN of agent " + someAgent},
		{secretToken, []string{"secret", "set", strings.ToLower(someAgent), "TOKEN", "--plugin", "p"}, 0, "kept TOKEN of plugin p of agent " + strings.ToLower(someAgent)},
		{"", []string{"secret", "list", someAgent}, 0, "TOKEN  \nTOKEN  p\n"},
		{"", []string{"secret", "list", someAgent, "--plugin", "p", "--json"}, 0, `"plugin": "p"`},
		{"", []string{"secret", "list", someAgent, "--plugin", "q", "--json"}, 0, "\"keys\": []"},
		{"", []string{"secret", "delete", someAgent, "TOKEN"}, 0, "deleted TOKEN"},
		{"", []string{"secret", "delete", someAgent, "TOKEN"}, fault.ExitNotFound, "no such secret"},
		{"", []string{"secret", "list", someAgent}, 0, "TOKEN  p\n"},

		{secretToken, []string{"secret", "set", "@host", "INFERENCE_API_KEY"}, 0, "kept INFERENCE_API_KEY of this host"},
		{"", []string{"secret", "list", "@host"}, 0, "INFERENCE_API_KEY"},
		{"", []string{"secret", "delete", "@host", "INFERENCE_API_KEY"}, 0, "deleted"},

		{"", []string{"secret", "set", someAgent, "TOKEN"}, fault.ExitInvalidArgs, "it is empty"},
		{secretToken + "\x00", []string{"secret", "set", someAgent, "TOKEN"}, fault.ExitInvalidArgs, "NUL"},
		{strings.Repeat("x", 1<<20), []string{"secret", "set", someAgent, "TOKEN"}, fault.ExitInvalidArgs, "longer than 65536"},
		{"x", []string{"secret", "set", someAgent, "to.ken"}, fault.ExitInvalidArgs, "letters, digits and underscores"},
		{"x", []string{"secret", "set", someAgent, "TOKEN", "--plugin", "../p"}, fault.ExitInvalidArgs, "plugin id"},
		{"x", []string{"secret", "set", someAgent, "TOKEN", "value"}, fault.ExitInvalidArgs, "accepts 2"},
	} {
		code, out, stderr := fed(t, tc.input, tc.args...)
		if code != tc.code || !strings.Contains(out+stderr, tc.want) || code != 0 && !strings.Contains(stderr, "advice: ") {
			t.Errorf("%v: %d, %s%s, want %d, %q", tc.args, code, out, stderr, tc.code, tc.want)
		}
	}
	k := secrets.Key{Agent: someAgent, Plugin: "p", Name: "TOKEN"}
	if v, err := agefile.New(home, nil).Get(t.Context(), k); err != nil || v.Reveal() != secretToken {
		t.Errorf("kept is %q, %v", v.Reveal(), err)
	}
}

func TestSecretPassphrase(t *testing.T) {
	home := secretHome(t)
	file := filepath.Join(t.TempDir(), "passphrase")
	if err := os.WriteFile(file, []byte("open sesame"), 0o600); err != nil {
		t.Fatal(err)
	}
	do := func(code int, want, input string, args ...string) {
		t.Helper()
		if got, out, stderr := fed(t, input, args...); got != code || !strings.Contains(out+stderr, want) {
			t.Errorf("%v: %d, %s%s, want %d, %q", args, got, out, stderr, code, want)
		}
	}
	do(0, "kept", secretToken, "secret", "set", someAgent, "TOKEN")
	putPassphrase(t, home, "open sesame")
	shows(t, agefile.PassphraseFileVariable, "doctor")
	endDaemon(t)
	do(fault.ExitUnavailable, agefile.PassphraseFileVariable, "", "secret", "list", someAgent)
	endDaemon(t)
	t.Setenv(agefile.PassphraseFileVariable, file)
	do(0, "TOKEN", "", "secret", "list", someAgent)
	do(0, "", "", "secret", "passphrase", "--remove")
	t.Setenv(agefile.PassphraseFileVariable, "")
	do(0, "TOKEN", "", "secret", "list", someAgent)
	do(fault.ExitInvalidArgs, "it is empty", "", "secret", "passphrase")
	do(0, "", "open sesame\n", "secret", "passphrase")
	if text, err := os.ReadFile(home.SecretsKey()); err != nil || bytes.Contains(text, []byte("SECRET-KEY")) {
		t.Errorf("the key is open: %v", err)
	}
}

// putPassphrase is `secret passphrase` with a small work factor: a real one takes many seconds
// under the race detector.
func putPassphrase(t *testing.T, home config.Home, passphrase string) {
	t.Helper()
	to, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		t.Fatal(err)
	}
	to.SetWorkFactor(1)
	text, err := os.ReadFile(home.SecretsKey())
	if err != nil {
		t.Fatal(err)
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, to)
	if err == nil {
		_, err = w.Write(text)
	}
	if err = errors.Join(err, w.Close(), config.WriteFile(home.SecretsKey(), sealed.Bytes())); err != nil {
		t.Fatal(err)
	}
}

// awaitEcho waits until the terminal's echo is on or off.
func (term *terminal) awaitEcho(want bool) {
	term.t.Helper()
	timetest.Eventually(term.t, "the terminal's echo changes", func() bool {
		state, err := unix.IoctlGetTermios(int(term.master.Fd()), unix.TCGETS)
		return err == nil && (state.Lflag&unix.ECHO != 0) == want
	})
}

// A typed secret is not shown, and the echo is restored.
func TestSecretTyped(t *testing.T) {
	secretHome(t)
	term := onTerminal(t, nil, "secret", "set", someAgent, "TOKEN")
	term.answer("): ", secretToken)
	term.awaitEcho(true)
	if code, shown := term.end(); code != 0 || strings.Contains(shown, secretToken) || !strings.Contains(shown, "kept TOKEN") {
		t.Errorf("%d, %q", code, shown)
	}
}

func TestSecretInterrupted(t *testing.T) {
	home := secretHome(t)
	term := onTerminal(t, nil, "secret", "set", someAgent, "TOKEN")
	const ctrlC = "\x03"
	term.press("): ", ctrlC)
	term.awaitEcho(true)
	if code, shown := term.end(); code != exitInterrupted+int(syscall.SIGINT) {
		t.Errorf("%d, %q", code, shown)
	}
	if _, err := os.Stat(home.Secrets()); err == nil {
		t.Error("something was kept")
	}
}

// A new passphrase is typed twice, and asked for when it is needed.
func TestSecretPassphraseTyped(t *testing.T) {
	home := secretHome(t)
	feed(t, secretToken, "secret", "set", someAgent, "TOKEN")
	term := onTerminal(t, nil, "secret", "passphrase")
	term.answer("the new passphrase", "sesame")
	term.answer("the passphrase again", "barley")
	if code, shown := term.end(); code != fault.ExitInvalidArgs || !strings.Contains(shown, "the two passphrases differ") || strings.Contains(shown, "sesame") {
		t.Errorf("typed differently: %d, %q", code, shown)
	}
	putPassphrase(t, home, "sesame")
	for _, tc := range []struct {
		typed string
		code  int
	}{{"barley", fault.ExitUserDenied}, {"sesame", 0}} {
		term := onTerminal(t, nil, "secret", "passphrase", "--remove")
		term.answer("the passphrase", tc.typed)
		if code, shown := term.end(); code != tc.code || strings.Contains(shown, tc.typed) {
			t.Errorf("%s: %d, %q", tc.typed, code, shown)
		}
	}
}

// TestCanary keeps a secret while a daemon runs, and finds it in no file of the home, no argument,
// no environment, and nothing that a crash leaves.
func TestCanary(t *testing.T) {
	home := secretHome(t)
	daemon := start(t, "serve")
	t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGTERM)
		_ = daemon.Wait()
		if strings.Contains(daemon.err.String(), secretToken) {
			t.Error("the secret is in the daemon's log")
		}
	})
	timetest.Eventually(t, "the daemon answers", func() bool { code, _, _ := sandbox(t, "status"); return code == 0 })
	feed(t, "", "agent", "create", "alice", "--id", someAgent)
	if code, out, stderr := fed(t, secretToken, "secret", "set", "alice", "TOKEN"); code != 0 || out != "kept TOKEN of agent alice\n" {
		t.Fatal(out, stderr)
	}
	if code, _, stderr := fed(t, secretToken, "secret", "set", "bob", "TOKEN"); code != fault.ExitNotFound {
		t.Errorf("of an agent that is not there: %d, %s", code, stderr)
	}
	answerPrompt(t)
	for _, args := range [][]string{{"secret", "list", someAgent}, {"prompt", "list", "--all"}, {"doctor"}, {"status", "--json"}, {"events"}, {"logs"}, {"audit", "list"}} {
		fed(t, "", args...)
	}

	// This process has the secret in memory and waits for the end of its input.
	t.Chdir(t.TempDir()) // where a core dump would be
	holder := exec.Command("sh", "-c", `ulimit -c unlimited; exec "$0" secret set `+someAgent+` CRASH`, os.Args[0])
	holder.Env = append(os.Environ(), asProgram+"=1", "GOTRACEBACK=crash")
	var left bytes.Buffer
	holder.Stdout, holder.Stderr = &left, &left
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	holder.Stdin = in
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Process.Kill() })
	if _, err := io.WriteString(to, secretToken); err != nil {
		t.Fatal(err)
	}
	timetest.Eventually(t, "it has read the secret", func() bool {
		unread, err := unix.IoctlGetInt(int(in.Fd()), unix.TIOCINQ)
		return err == nil && unread == 0
	})
	for _, file := range []string{"environ", "cmdline"} {
		all, err := filepath.Glob("/proc/[0-9]*/" + file)
		if err != nil || len(all) < 2 {
			t.Fatal(all, err)
		}
		for _, path := range all {
			if text, _ := os.ReadFile(path); bytes.Contains(text, []byte(secretToken)) { // the process may be gone
				t.Errorf("the secret is in %s", path)
			}
		}
	}
	if limit, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", daemon.Process.Pid)); err != nil || !strings.Contains(strings.Join(strings.Fields(string(limit)), " "), "Max core file size 1 1 ") {
		t.Errorf("the daemon may leave a core: %s, %v", limit, err)
	}
	if err := holder.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if err := holder.Wait(); err == nil || !strings.Contains(left.String(), "SIGQUIT") {
		t.Errorf("no crash: %v, %s", err, &left)
	}
	if strings.Contains(left.String(), secretToken) {
		t.Errorf("the secret is in what a crash says: %s", &left)
	}
	for _, dir := range []string{".", string(home)} {
		found := 0
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			found++
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte(secretToken)) {
				t.Errorf("the secret is in %s", path)
			}
			return err
		})
		if err != nil || (dir == ".") != (found == 0) {
			t.Errorf("%s has %d files, %v", dir, found, err)
		}
	}
}

// answerPrompt asks for a secret in one program and answers on another's terminal.
func answerPrompt(t *testing.T) {
	t.Helper()
	asked := make(chan string, 1)
	go func() {
		code, out, stderr := fed(t, "", "secret", "ask", "alice", "ASKED", "--text", "for the report\nof today", "--timeout", "10m")
		asked <- fmt.Sprint(code, " ", out, stderr)
	}()
	timetest.Eventually(t, "the prompt waits", func() bool {
		_, out, _ := fed(t, "", "prompt", "list")
		return strings.Contains(out, "secret ASKED") && strings.Contains(out, "for the report")
	})
	term := onTerminal(t, nil, "prompt", "answer")
	term.answer("): ", secretToken)
	term.awaitEcho(true)
	if code, shown := term.end(); code != 0 || strings.Contains(shown, secretToken) || !strings.Contains(shown, "alice asks for secret ASKED") ||
		!strings.Contains(shown, "| of today") || !strings.Contains(shown, "kept secret ASKED of agent alice") {
		t.Errorf("%d, %q", code, shown)
	}
	if got := <-asked; !strings.HasPrefix(got, "0 kept ASKED of agent alice") {
		t.Errorf("who asked got %s", got)
	}
	if code, _, stderr := fed(t, secretToken, "prompt", "answer"); code != fault.ExitNotFound {
		t.Errorf("nothing waits: %d, %s", code, stderr)
	}
	for _, what := range []string{"secret.set", "secret.ask", "prompt.answer"} {
		if _, out, _ := fed(t, "", "audit", "list"); !strings.Contains(out, what) {
			t.Errorf("the audit has no %s: %s", what, out)
		}
	}
}
