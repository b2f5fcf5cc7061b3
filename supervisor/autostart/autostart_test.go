package autostart

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const awkward = `/home/a b/100%/"q"\&<x>`

func TestSystemdQuotes(t *testing.T) {
	text := string(Service{home: awkward, program: awkward, manager: systemd}.description())
	for _, want := range []string{
		`ExecStart="/home/a b/100%%/\"q\"\\&<x>" serve --quiet` + "\n",
		`Environment="OSAURUS_HOME=/home/a b/100%%/\"q\"\\&<x>"` + "\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestLaunchdIsXML(t *testing.T) {
	text := Service{home: awkward, program: awkward, manager: launchd}.description()
	found := 0
	for d := xml.NewDecoder(strings.NewReader(string(text))); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := token.(xml.CharData); ok && string(s) == awkward {
			found++
		}
	}
	if found != 2 || !strings.Contains(string(text), "/logs/daemon.log</string>") {
		t.Errorf("program and home are there %d times:\n%s", found, text)
	}
}

// TestInstallAndUninstall uses a manager that keeps a file while a service runs.
func TestInstallAndUninstall(t *testing.T) {
	dir := t.TempDir()
	works := manager{
		folder: func() (string, error) { return dir, nil }, name: "LABEL", text: "%[2]s", quote: strings.TrimSpace,
		reach: "true", running: "test -e FILE.runs", load: []string{"touch FILE.runs"}, unload: []string{"rm FILE.runs"},
		advice: "log in",
	}
	fails := works
	fails.reach, fails.load, fails.unload = "ls /no-session", []string{"ls /no-session"}, []string{"ls /no-session"}
	s, err := newService(config.Home(t.TempDir()), "/bin/program", works)
	if err != nil {
		t.Fatal(err)
	}
	want := func(status Status) {
		t.Helper()
		status.File = s.file
		if got, err := s.Status(t.Context()); err != nil || got != status {
			t.Errorf("%+v, %v; want %+v", got, err, status)
		}
	}
	want(Status{})
	if err := s.Uninstall(t.Context()); fault.KindOf(err) != fault.NotFound {
		t.Errorf("%v", err)
	}
	for range 2 { // the second replaces the first
		if err := s.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(Status{Installed: true, Current: true, Running: true})
	}
	s.program = "/bin/moved"
	want(Status{Installed: true, Running: true})
	if err := s.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(Status{})

	s.manager = fails
	if err := s.Install(t.Context()); fault.KindOf(err) != fault.Execution || !strings.Contains(err.Error(), "no-session") || fault.AdviceOf(err) == "" {
		t.Errorf("%v", err)
	}
	want(Status{})
	if s.Ready(t.Context()) == nil {
		t.Error("a manager that cannot be reached is ready")
	}
	if err := os.WriteFile(s.file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s.Uninstall(t.Context()) == nil {
		t.Error("the failure is not reported")
	}
	want(Status{})
}

// launchctl stands in for Apple's: bootout answers 36 and the job stays for three prints, as
// apple/launchd does while a job ends; until then bootstrap fails with 5, and once more after.
// A job that was disabled cannot be bootstrapped, nor one whose error file has no folder.
const launchctl = `#!/bin/sh
cd "$(dirname "$0")"
echo "$1" >> calls
case $1 in
enable) touch enabled ;;
bootout) [ -e job ] || exit 3; echo 3 > ending; exit 36 ;;
print)
  [ "${2#*/*/}" != "$2" ] || exit 0 # the session
  if [ -e ending ]; then
    n=$(cat ending); [ "$n" -gt 0 ] && echo $((n - 1)) > ending && exit 0
    rm ending job
  fi
  [ -e job ] || exit 113 ;;
bootstrap)
  [ -e enabled ] && [ ! -e job ] || exit 5
  [ -e late ] && rm late && exit 5
  grep -q "$(cat home)/logs/daemon.log" "$3" && [ -d "$(cat home)/logs" ] || exit 78
  touch job ;;
esac
`

// TestLaunchctl installs, replaces and removes a service with a launchctl that takes its time.
func TestLaunchctl(t *testing.T) {
	bin, folder, home := t.TempDir(), t.TempDir(), config.Home(filepath.Join(t.TempDir(), "home"))
	for name, text := range map[string]string{"launchctl": launchctl, "home": string(home)} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	m := launchd
	m.folder = func() (string, error) { return folder, nil }
	s, err := newService(home, "/bin/program", m)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second replaces the first
		if err := os.WriteFile(filepath.Join(bin, "late"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		if status, err := s.Status(t.Context()); err != nil || !status.Running || !status.Current {
			t.Fatalf("%+v, %v", status, err)
		}
	}
	if err := s.Uninstall(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "job")); err == nil {
		t.Error("the job is still there")
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left among the launch agents: %v, %v", left, err)
	}
	calls, err := os.ReadFile(filepath.Join(bin, "calls"))
	if err != nil || !strings.HasPrefix(string(calls), "enable\nbootstrap\n") {
		t.Errorf("%q, %v", calls, err)
	}
	if strings.Contains(launchd.advice, "loginctl") {
		t.Error("macOS has no loginctl")
	}
}

func TestLabels(t *testing.T) {
	t.Setenv("HOME", "/home/x")
	usual, other := Service{home: "/home/x/.osaurus"}, Service{home: "/srv/other"}
	if usual.label() != label || other.label() == label || !strings.HasPrefix(other.label(), label+"-") {
		t.Errorf("%s %s", usual.label(), other.label())
	}
}
