package autostart

import (
	"encoding/xml"
	"io"
	"os"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const awkward = `/home/a b/100%/"q"\&<x>`

func TestSystemdQuotes(t *testing.T) {
	text := string(Service{config.Home(awkward), awkward, systemd}.description())
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
	text := Service{config.Home(awkward), awkward, launchd}.description()
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
	if found != 2 {
		t.Errorf("program and home are there %d times:\n%s", found, text)
	}
}

// TestInstallAndUninstall uses a manager that keeps a file while a service runs.
func TestInstallAndUninstall(t *testing.T) {
	dir := t.TempDir()
	works := manager{
		folder: func() (string, error) { return dir, nil }, name: "LABEL", text: "%[2]s", quote: strings.TrimSpace,
		reach: "true", running: "test -e FILE.runs", load: []string{"touch FILE.runs"}, unload: []string{"rm FILE.runs"},
	}
	fails := works
	fails.reach, fails.load, fails.unload = "ls /no-session", []string{"ls /no-session"}, []string{"ls /no-session"}
	s := Service{"/home/x", "/bin/program", works}
	file, err := s.file()
	if err != nil {
		t.Fatal(err)
	}
	want := func(status Status) {
		t.Helper()
		status.File = file
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
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s.Uninstall(t.Context()) == nil {
		t.Error("the failure is not reported")
	}
	want(Status{})
}

func TestLabels(t *testing.T) {
	t.Setenv("HOME", "/home/x")
	usual, other := Service{home: "/home/x/.osaurus"}, Service{home: "/srv/other"}
	if usual.label() != label || other.label() == label || !strings.HasPrefix(other.label(), label+"-") {
		t.Errorf("%s %s", usual.label(), other.label())
	}
}
