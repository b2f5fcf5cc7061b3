package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/hosttest"
)

// hostHome returns a home with an agent alice. Its daemon runs in this process, with this host as
// the guest.
func hostHome(t *testing.T) (end func()) {
	t.Helper()
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	t.Setenv(config.HomeVariable, string(home))
	if err := config.WriteFile(home.SettingsFile(), []byte(`{"autoStart": false}`)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if err := daemon.Run(ctx, daemon.Options{Home: home, Backend: &hosttest.Backend{}, Program: "an earlier one", Ready: func(*control.Server) { close(ready) }}); err != nil {
			t.Error(err)
		}
	}()
	end = func() { cancel(); <-ended }
	t.Cleanup(end)
	select {
	case <-ready:
	case <-ended:
		t.FailNow()
	}
	ok(t, "agent", "create", "alice")
	return end
}

// tmux is a terminal with a shell, in which $P is this program.
type tmux struct {
	t      *testing.T
	socket string
}

func newTmux(t *testing.T) tmux {
	t.Helper()
	m := tmux{t, filepath.Join(t.TempDir(), "tmux")}
	cmd := m.command("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "sh", ";", "set", "-g", "status", "off", ";", "set", "-sg", "escape-time", "0")
	cmd.Env = append(os.Environ(), asProgram+"=1", "P="+os.Args[0], "ENV=", "TERM=xterm-256color")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tmux: %v %s", err, out)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the terminal shows:\n%s", m.screen())
		}
		m.do("kill-server")
	})
	m.line(`PS1='he''re> '`)
	m.await("here>")
	m.line("before=$(stty -g)")
	return m
}

func (m tmux) command(args ...string) *exec.Cmd {
	return exec.Command("tmux", append([]string{"-S", m.socket}, args...)...)
}

func (m tmux) do(args ...string) string {
	m.t.Helper()
	out, err := m.command(args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("tmux %v: %v %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (m tmux) screen() string { return m.do("capture-pane", "-p") }

// keys presses keys by their names: "C-c", "Enter".
func (m tmux) keys(names ...string) {
	m.t.Helper()
	m.do(append([]string{"send-keys"}, names...)...)
}

func (m tmux) text(text string) {
	m.t.Helper()
	m.do("send-keys", "-l", text)
}

func (m tmux) line(text string) {
	m.t.Helper()
	m.text(text)
	m.keys("Enter")
}

func (m tmux) await(text string) {
	m.t.Helper()
	timetest.Eventually(m.t, text+" appears", func() bool { return strings.Contains(m.screen(), text) })
}

// says types a command on an empty screen and waits for its output, which the command itself must
// not contain.
func (m tmux) says(command, output string) {
	m.t.Helper()
	m.line("clear; " + command)
	m.await(output)
}

// attach starts `shell alice` on an empty screen.
func (m tmux) attach(session string) {
	m.t.Helper()
	m.line(`clear; "$P" shell alice --session ` + session + `; echo ended"" with $?`)
}

// isRestored waits for the end of attach, and checks that the terminal is restored.
func (m tmux) isRestored(code int) {
	m.t.Helper()
	m.await(fmt.Sprint("ended with ", code))
	m.says(`test "$(stty -g)" = "$before" && echo as"" before`, "as before")
	if got := m.do("display", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{keypad_cursor_flag}"); got != "0 1 0 0" {
		m.t.Errorf("the other screen, cursor, mouse and arrow keys are %s", got)
	}
}

// TestShellOnATerminal works in an agent's shell.
func TestShellOnATerminal(t *testing.T) {
	endDaemon := hostHome(t)
	m := newTmux(t)
	tool := func(command string, timeout time.Duration) (int, string) {
		t.Helper()
		code, out, stderr := sandbox(t, "exec", "alice", "--session", "s", "--timeout", timeout.String(), "--", command)
		return code, out + stderr
	}
	tool("A=from-a-tool; PS1='alice> '", seenWithin)

	m.attach("s")
	m.await("Session s of alice. Ctrl-] twice leaves it running.")
	m.await("$ A=from-a-tool") // the transcript so far
	m.says("echo is $A", "is from-a-tool")

	m.says("stty size", "24 80")
	m.do("resize-window", "-x", "100", "-y", "31")
	// Keys may arrive before the new size.
	m.says("until stty size | grep '31 1''00'; do sleep 0.1; done", "31 100")

	m.line(`clear; sh -c 'echo be""gun; exec sleep 1000'`) // in the foreground once it writes
	m.await("begun")
	m.keys("C-c")
	m.await("alice>")
	if code, out := tool("echo hello from a tool | tee notes", seenWithin); code != 0 || out != "hello from a tool\n" {
		t.Errorf("a tool reads %d, %q", code, out)
	}
	m.await("hello from a tool")

	// A person who detaches from an editor gets the terminal back, and the editor on return. A tool
	// waits for the editor until its time is over.
	m.line(`vim.tiny -u NONE +'set mouse=a' notes; clear; echo sa""ved`)
	m.await("hello from a tool\n~")
	m.keys("C-]", "C-]")
	m.await("The shell is left running.")
	m.isRestored(0)
	if code, out := tool("true", 2*time.Second); code != exitSandbox || !strings.Contains(out, "person's program") {
		t.Errorf("beside an editor: %d, %s", code, out)
	}
	m.attach("s")
	m.await("hello from a tool\n~")
	m.text("Oand again")
	m.keys("Escape")
	m.line(":wq")
	m.await("saved")
	m.says("cat notes; echo $A", "and again\nhello from a tool\nfrom-a-tool")

	m.line("exit 4")
	m.isRestored(4)
	m.says("$P exec alice --session s -- 'exit 4'; echo status $?", "status 4")

	t.Run("killed", func(t *testing.T) {
		pid := m.started(t, "killed")
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		m.await("ended by a signal")
		m.isRestored(exitInterrupted + int(syscall.SIGTERM))
	})
	t.Run("lost daemon", func(t *testing.T) {
		m.started(t, "lost")
		endDaemon()
		m.await("ended")
		m.isRestored(1)
	})
}

// started returns the process id of a `shell` in which an editor runs.
func (m tmux) started(t *testing.T, session string) int {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pid")
	m.line(fmt.Sprintf(`clear; sh -c 'echo $$ >%s; exec "$P" shell alice --session %s'; echo ended"" with $?`, file, session))
	m.await("twice leaves")
	m.says("echo att\"\"ached", "attached")
	m.line("vim.tiny -u NONE")
	m.await("~")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// Without a terminal, shell says what to do instead.
func TestShellWithoutATerminal(t *testing.T) {
	hostHome(t)
	fails(t, exitSandbox, "exec alice --session default", "shell", "alice")
}
