package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// terminal is this program on a terminal.
type terminal struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File

	mu    sync.Mutex
	shown bytes.Buffer
	done  chan struct{} // closed at the end of the output
}

// openTerminal opens both ends of a pseudo-terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	name, err := otherEnd(master)
	if err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120}); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// onTerminal runs a command line on a terminal of 120 columns.
func onTerminal(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	master, slave := openTerminal(t)
	defer slave.Close()
	term := &terminal{t: t, cmd: exec.Command(os.Args[0], args...), master: master, done: make(chan struct{})}
	term.cmd.Env = append(append(os.Environ(), asProgram+"=1", "TERM=xterm", "NO_COLOR="), env...)
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = slave, slave, slave
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(term.done)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			term.mu.Lock()
			term.shown.Write(buf[:n])
			term.mu.Unlock()
			if err != nil { // EIO when the other end is closed
				return
			}
		}
	}()
	return term
}

func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.shown.String()
}

// answer types a line after a prompt.
func (term *terminal) answer(prompt, line string) {
	term.t.Helper()
	term.press(prompt, line+"\n")
}

// press presses keys after a prompt.
func (term *terminal) press(prompt, keys string) {
	term.t.Helper()
	timetest.Eventually(term.t, "it says "+prompt, func() bool { return strings.Contains(term.text(), prompt) })
	if _, err := term.master.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
}

// end returns the exit code and all that was shown.
func (term *terminal) end() (code int, shown string) {
	_ = term.cmd.Wait() // the exit code has it
	<-term.done
	term.master.Close()
	return term.cmd.ProcessState.ExitCode(), term.text()
}

func TestColourIsForTerminals(t *testing.T) {
	t.Setenv(config.HomeVariable, t.TempDir())
	wrong := []string{"config", "set", "cpus=99"}
	if _, shown := onTerminal(t, nil, wrong...).end(); !strings.Contains(shown, "\x1b[31mosaurus-sandbox: \x1b[0m") {
		t.Errorf("on a terminal: %q", shown)
	}
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb", "TERM="} {
		if _, shown := onTerminal(t, []string{env}, wrong...).end(); strings.Contains(shown, "\x1b") || !strings.Contains(shown, failurePrefix) {
			t.Errorf("with %s: %q", env, shown)
		}
	}
	if _, _, stderr := sandbox(t, wrong...); strings.Contains(stderr, "\x1b") {
		t.Errorf("in a pipe: %q", stderr)
	}
}

// Destructive commands ask first, and only "y" and "yes" confirm.
func TestPersonIsAsked(t *testing.T) {
	t.Setenv(config.HomeVariable, t.TempDir())
	for what, prompt := range map[string]string{"reset": "Reset? [y/N] ", "remove": "Remove? [y/N] "} {
		for _, line := range []string{"n", "", "yeah"} {
			term := onTerminal(t, nil, what)
			term.answer(prompt, line)
			if code, shown := term.end(); code != fault.ExitUserDenied || !strings.Contains(shown, "will be gone") || !strings.Contains(shown, "not confirmed") {
				t.Errorf("%s, %q: %d, %q", what, line, code, shown)
			}
		}
	}
}
