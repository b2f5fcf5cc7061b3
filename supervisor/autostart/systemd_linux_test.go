package autostart

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/timetest"
)

const (
	// insideSystemd is set in the process that has a systemd of its own.
	insideSystemd = "OSAURUS_TEST_SYSTEMD"
	systemdPath   = "/usr/lib/systemd/systemd"
	started       = "started"
)

// TestMain: systemd starts the test program as if it were the daemon.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "serve" && os.Args[2] == "--quiet" {
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		home := os.Getenv(config.HomeVariable)
		if err := os.WriteFile(filepath.Join(home, started), []byte(home), 0o600); err != nil {
			os.Exit(1)
		}
		<-stop
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestSystemd installs, replaces and removes a service with the user instance of
// a real systemd, which the test has to itself: in namespaces of its own, of
// which nothing is left.
func TestSystemd(t *testing.T) {
	if os.Getenv(insideSystemd) != "" {
		underSystemd(t)
		return
	}
	if _, err := os.Stat(systemdPath); err != nil || os.Geteuid() != 0 {
		t.Skip("*** NOT TRIED: it takes root, for a systemd of its own, and systemd")
	}
	defer clearGroups(t, groups(t))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestSystemd$")
	cmd.Env = append(os.Environ(), insideSystemd+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestSystemd") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// groups are the cgroups that a systemd of this process makes, in every hierarchy.
func groups(t *testing.T) (there map[string]bool) {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	there = map[string]bool{}
	for line := range strings.Lines(string(own)) {
		path := strings.SplitN(strings.TrimSpace(line), ":", 3)[2]
		for _, hierarchy := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
			for _, name := range []string{"init.scope", "app.slice"} {
				found, _ := filepath.Glob(filepath.Join(hierarchy, path, name)) // the pattern is well formed
				for _, dir := range found {
					there[dir] = true
				}
			}
		}
	}
	return there
}

// clearGroups removes those that were not there before.
func clearGroups(t *testing.T, before map[string]bool) {
	for dir := range groups(t) {
		if !before[dir] {
			clearGroup(t, dir)
		}
	}
}

// clearGroup removes a cgroup and its children, which have no processes.
func clearGroup(t *testing.T, dir string) {
	inner, _ := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
	for _, file := range inner {
		clearGroup(t, filepath.Dir(file))
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func underSystemd(t *testing.T) {
	for _, m := range []struct {
		what, where, kind string
		flags             uintptr
	}{{"", "/", "", unix.MS_REC | unix.MS_PRIVATE}, {"tmpfs", "/run", "tmpfs", 0}, {"proc", "/proc", "proc", 0}} {
		if err := unix.Mount(m.what, m.where, m.kind, m.flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll("/run/systemd/system", 0o755); err != nil { // it asks whether systemd is there
		t.Fatal(err)
	}
	home := config.Home(filepath.Join(t.TempDir(), awkward))
	program := filepath.Join(t.TempDir(), "a program; 100% mit $KÄSE")
	if err := os.MkdirAll(string(home), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(os.Args[0], program); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "/run")
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(t.TempDir(), "config"))
	manager := exec.Command(systemdPath, "--user")
	manager.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := manager.Start(); err != nil {
		t.Fatal(err)
	}
	timetest.Eventually(t, "systemd answers", func() bool { return exec.Command("systemctl", "--user", "daemon-reload").Run() == nil })

	s := Service{home, program, systemd{}}
	want := func(status Status) {
		t.Helper()
		status.File = s.File()
		if got, err := s.Status(t.Context()); err != nil || got != status {
			t.Errorf("%+v, %v; want %+v", got, err, status)
		}
	}
	want(Status{})
	note := filepath.Join(string(home), started)
	for range 2 { // the second replaces the first
		if err := s.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(Status{Installed: true, Current: true, Running: true})
		timetest.Eventually(t, "the program runs, and knows its home", func() bool {
			text, err := os.ReadFile(note)
			return err == nil && string(text) == string(home)
		})
		if err := os.Remove(note); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("systemd-analyze", "--user", "verify", s.File()).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze: %v, %s", err, out)
	}
	if err := s.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(Status{})
	if out, _ := exec.Command("systemctl", "--user", "is-enabled", s.label()+".service").CombinedOutput(); strings.Contains(string(out), "enabled") {
		t.Errorf("it is still %s", out)
	}
	if err := manager.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = manager.Wait() // it was killed
}
