//go:build linux

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	api "osaurus-sandbox/control/daemon"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/homelock"
	"osaurus-sandbox/supervisor/machine"
)

// These variables, when set, make the test program a daemon of that home, without or with an API.
const (
	daemonHome = "OSAURUS_E2E_DAEMON"
	apiHome    = "OSAURUS_E2E_API"
)

func TestMain(m *testing.M) {
	if home := os.Getenv(daemonHome); home != "" {
		serve(config.Home(home))
	}
	if home := os.Getenv(apiHome); home != "" {
		serveAPI(config.Home(home))
	}
	os.Exit(m.Run())
}

// serve executes the commands that it reads, one a line, and prints each result.
func serve(home config.Home) {
	lock, err := homelock.Take(context.Background(), home)
	if err != nil {
		fmt.Println("new", fault.KindOf(err), err)
		os.Exit(1)
	}
	s, err := machine.New(context.Background(), options(home))
	if err != nil {
		fmt.Println("new", fault.KindOf(err), err)
		os.Exit(1)
	}
	fmt.Println("new ok")
	do := map[string]func() error{
		"start": func() error { return s.Start(context.Background(), by) },
		"stop":  func() error { return s.Stop(context.Background(), by) },
		"reset": func() error { return s.Reset(context.Background(), by) },
		"exec": func() error {
			p, err := s.Exec(context.Background(), engine.Command{Args: []string{"sleep", "2"}})
			if err == nil {
				_, err = p.Wait()
			}
			return err
		},
		"stopping": func() error { return left(context.Background(), s, machine.Running, machine.Unresponsive) },
		"true": func() (err error) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			status := s.Status()
			for status.State == machine.Unresponsive && err == nil { // for a moment, on a busy host
				status, err = s.Next(ctx, status.Revision)
			}
			if err == nil && status.State != machine.Running {
				err = fmt.Errorf("the sandbox is %s", status.State)
			}
			return err
		},
		"inherited": func() error {
			if _, ok := lock.Before(); !ok {
				return fmt.Errorf("it does not know of the one before it")
			}
			return nil
		},
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		word := in.Text()
		go func() {
			if err := do[word](); err != nil {
				fmt.Println(word, fault.KindOf(err), err)
				return
			}
			fmt.Println(word, "ok")
		}()
	}
	if err := s.Close(context.Background()); err != nil {
		fmt.Println("close", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveAPI serves the API of a home until the process is killed.
func serveAPI(home config.Home) {
	err := api.Run(context.Background(), api.Options{Home: home, Driver: lab.Driver(driver()), Ready: func(*control.Server) { fmt.Println("ready") }})
	fmt.Println("ended", err)
	os.Exit(1)
}

// left waits until the sandbox is in none of the states. On a busy host it may have passed others by then.
func left(ctx context.Context, s *machine.Machine, states ...machine.State) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for status := s.Status(); slices.Contains(states, status.State) && err == nil; {
		status, err = s.Next(ctx, status.Revision)
	}
	return err
}

// daemon is a process that owns a home.
type daemon struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

func newDaemon(t *testing.T, home config.Home) *daemon {
	t.Helper()
	return newProcess(t, daemonHome, home)
}

// newProcess starts the test program with this variable.
func newProcess(t *testing.T, variable string, home config.Home) *daemon {
	t.Helper()
	d := &daemon{t: t, cmd: exec.Command(os.Args[0]), lines: make(chan string, 100)}
	d.cmd.Env = append(os.Environ(), variable+"="+string(home))
	d.cmd.Stderr = os.Stderr
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(d.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			d.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill() // if it has not ended
		_ = d.cmd.Wait()
	})
	return d
}

func (d *daemon) pid() int { return d.cmd.Process.Pid }

// ask sends a command to the daemon without waiting for the answer.
func (d *daemon) ask(word string) {
	d.t.Helper()
	if _, err := fmt.Fprintln(d.in, word); err != nil {
		d.t.Fatal(err)
	}
}

// answer waits for an answer with this prefix: "start ok".
func (d *daemon) answer(want string) {
	d.t.Helper()
	select {
	case line, ok := <-d.lines:
		if !ok || !strings.HasPrefix(line, want) {
			d.t.Fatalf("the daemon says %q, want %q", line, want)
		}
	case <-time.After(patience):
		d.t.Fatalf("the daemon does not say %q", want)
	}
}

func (d *daemon) do(word string) {
	d.t.Helper()
	d.ask(word)
	d.answer(word + " ok")
}

// close shuts the daemon down.
func (d *daemon) close() {
	d.t.Helper()
	if err := d.in.Close(); err != nil {
		d.t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("the daemon's end: %v", err)
	}
}

// begin starts an operation of the daemon and waits until it is in progress.
func (d *daemon) begin(moment string) {
	d.t.Helper()
	switch moment {
	case "start":
		d.do("stop")
		d.ask("start")
		timetest.Eventually(d.t, "a machine starts", func() bool { return len(machines(d.t, d.pid())) > 0 })
	case "stop", "reset":
		d.ask(moment)
		d.do("stopping")
	case "exec":
		d.ask("exec")
		time.Sleep(pause / 4)
	}
}

// lives runs successive daemons of one sandbox.
type lives struct {
	*daemon
	t    *testing.T
	home config.Home
}

func newLives(t *testing.T) *lives {
	t.Helper()
	l := &lives{t: t, home: newHome(t)}
	l.daemon = newDaemon(t, l.home)
	l.answer("new ok")
	l.do("start")
	return l
}

// killed kills the daemon. Its machine must end too, and the next daemon must notice and work.
func (l *lives) killed(t *testing.T) {
	t.Helper()
	found := machines(t, l.pid())
	send(t, l.pid(), syscall.SIGKILL)
	_ = l.cmd.Wait() // it was killed
	for _, pid := range found {
		gone(t, pid)
	}
	l.daemon = newDaemon(l.t, l.home) // it outlives this part of the test
	l.daemon.t = t
	l.answer("new ok")
	l.do("inherited")
	l.do("start")
	l.do("exec")
}

// end shuts the last daemon down, which must leave no process.
func (l *lives) end() {
	l.t.Helper()
	l.daemon.t = l.t
	l.close()
	if found := machines(l.t, l.pid()); len(found) > 0 {
		l.t.Errorf("left behind: %v", found)
	}
}

// TestDaemon stops and kills daemons of a sandbox during their operations.
func TestDaemon(t *testing.T) {
	l := newLives(t)
	t.Run("Stopped", l.stopped)
	t.Run("Killed", func(t *testing.T) {
		moments := []string{"reset"}
		if everything() {
			moments = []string{"idle", "exec", "start", "stop", "reset"}
		}
		for _, moment := range moments {
			t.Run(moment, func(t *testing.T) {
				l.daemon.t = t
				l.begin(moment)
				l.killed(t)
			})
		}
	})
	l.end()
}

// gone waits for the end of a machine's process.
func gone(t *testing.T, pid int) {
	t.Helper()
	timetest.Eventually(t, "the machine is gone", func() bool {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return err != nil || !strings.HasPrefix(string(name), "qemu-system")
	})
}

// stopped sends SIGSTOP to daemons. A stopped daemon keeps its home. Once continued, it completes
// its operation; once killed, another daemon can take the home.
func (l *lives) stopped(t *testing.T) {
	type cell struct {
		moment string
		letGo  bool
	}
	cells := []cell{{"idle", true}, {"start", false}}
	if everything() {
		cells = nil
		for _, moment := range []string{"idle", "exec", "start", "stop", "reset"} {
			cells = append(cells, cell{moment, true}, cell{moment, false})
		}
	}
	for _, cell := range cells {
		t.Run(fmt.Sprintf("%s, let go: %v", cell.moment, cell.letGo), func(t *testing.T) {
			l.daemon.t = t
			l.begin(cell.moment)
			stopped := l.daemon
			send(t, stopped.pid(), syscall.SIGSTOP)
			t.Cleanup(func() {
				if t.Failed() { // or the test would wait for it
					_ = stopped.cmd.Process.Signal(syscall.SIGCONT)
				}
			})
			other := newDaemon(t, l.home)
			other.answer(fmt.Sprintf("new rejected lock home %s: it is in use by %s, process %d,", l.home, filepath.Base(os.Args[0]), l.pid()))
			if !cell.letGo {
				l.killed(t)
				return
			}
			time.Sleep(6 * time.Second) // longer than a guest may be silent
			send(t, l.pid(), syscall.SIGCONT)
			if cell.moment == "idle" {
				time.Sleep(pause)
			} else {
				l.answer(cell.moment + " ok")
			}
			if cell.moment == "stop" {
				l.do("start")
			}
			l.do("true")
			l.do("exec")
		})
	}
}
