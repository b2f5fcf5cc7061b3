//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
)

const (
	// arch boots fastest under emulation.
	arch = "arm64"
	by   = machine.Cause("test")

	// patience bounds every wait without its own limit, on a host that runs other tests too.
	patience = 2 * time.Minute
)

// newHome is bareHome with the images that tests share. Tests must not remove them.
func newHome(t *testing.T) config.Home {
	t.Helper()
	home := bareHome(t)
	lab.ShareImages(t, home, lab.BusyboxPack(t, arch))
	return home
}

// bareHome makes a home whose sandbox boots the smallest guest.
func bareHome(t *testing.T) config.Home {
	t.Helper()
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	settings := fmt.Sprintf(`{"pack": %q, "toolbox": [], "network": "none", "cpus": 2, "memoryGB": 1, "diskGB": 1}`, lab.BusyboxPack(t, arch).Dir)
	if err := config.WriteFile(home.SettingsFile(), []byte(settings)); err != nil {
		t.Fatal(err)
	}
	return home
}

// options returns a machine's options for a home.
func options(home config.Home) machine.Options {
	return machine.Options{
		Home: home, Driver: driver(), Arch: arch, Record: printer{},
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
}

// sandbox is a machine with helpers for tests.
type sandbox struct {
	*machine.Machine
	t    *testing.T
	home config.Home
}

func newSandbox(t *testing.T, home config.Home) *sandbox {
	t.Helper()
	s, err := machine.New(t.Context(), options(home))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &sandbox{s, t, home}
}

func (s *sandbox) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%v\nadvice: %s", err, fault.AdviceOf(err))
	}
}

// run runs a shell command in the guest and returns its output.
func (s *sandbox) run(script string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	p, err := s.Exec(ctx, engine.Command{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
	s.must(err)
	exit, err := p.Wait()
	s.must(err)
	if exit.Status() != 0 {
		s.t.Fatalf("%s: status %d: %s", script, exit.Status(), out.String())
	}
	return strings.TrimSpace(out.String())
}

// becomes waits for a state and returns the duration.
func (s *sandbox) becomes(want machine.State) time.Duration {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	began := time.Now()
	status := s.Status()
	for status.State != want {
		var err error
		if status, err = s.Next(ctx, status.Revision); err != nil {
			s.t.Fatalf("the sandbox is %s (%s), want %s: %v", status.State, status.Reason, want, err)
		}
	}
	return time.Since(began)
}

// machines returns the QEMU processes that a process has started.
func machines(t *testing.T, parent int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid …
		end := bytes.LastIndexByte(stat, ')')
		fields := strings.Fields(string(stat[end+1:]))
		if fields[1] != strconv.Itoa(parent) || !bytes.Contains(stat[:end], []byte("(qemu-system")) || fields[0] == "Z" {
			continue
		}
		args, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err != nil || !bytes.Contains(args, []byte("\x00-kernel\x00")) {
			continue // it only reports capabilities
		}
		pid, err := strconv.Atoi(strings.Fields(string(stat))[0])
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, pid)
	}
	return found
}

// qemuPID returns the only QEMU process of a process.
func qemuPID(t *testing.T, parent int) int {
	t.Helper()
	found := machines(t, parent)
	if len(found) != 1 {
		t.Fatalf("process %d has the machines %v, want one", parent, found)
	}
	return found[0]
}

// send sends a signal to a process that this test has started.
func send(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatalf("kill -%d %d: %v", s, pid, err)
	}
}

// printer prints events.
type printer struct{}

func (printer) Note(e events.Event) {
	fmt.Fprintf(os.Stderr, "%s %s (%s) %v\n", e.Time.Format("15:04:05.000"), e.Kind, e.Cause, e.Fields)
}
