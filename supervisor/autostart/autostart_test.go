package autostart

import (
	"context"
	"encoding/xml"
	"errors"
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
	text := string(systemd{}.describe(Service{config.Home(awkward), awkward, systemd{}}))
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
	text := launchd{}.describe(Service{config.Home(awkward), awkward, launchd{}})
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

// stub is a manager that only notes what it was asked.
type stub struct {
	dir  string
	fail bool
}

func (m stub) file(label string) (string, error) { return filepath.Join(m.dir, label), nil }
func (stub) describe(s Service) []byte           { return []byte(s.program) }
func (m stub) reach() []string                   { return m.command("load")[0] }
func (m stub) load(string, string) [][]string    { return m.command("load") }
func (m stub) unload(string, string) [][]string  { return m.command("unload") }
func (m stub) running(string) []string           { return []string{"test", "-e", filepath.Join(m.dir, "loaded")} }

func (m stub) command(what string) [][]string {
	if m.fail {
		return [][]string{{"sh", "-c", "echo no session >&2; exit 1"}}
	}
	loaded := filepath.Join(m.dir, "loaded")
	return [][]string{{"sh", "-c", map[string]string{"load": `touch "$0"`, "unload": `rm "$0"`}[what], loaded}}
}

func TestInstallAndUninstall(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := Service{"/home/x", "/bin/program", stub{dir: dir}}
	want := func(status Status) {
		t.Helper()
		status.File = s.File()
		if got, err := s.Status(ctx); err != nil || got != status {
			t.Errorf("%+v, %v; want %+v", got, err, status)
		}
	}
	want(Status{})
	if err := s.Uninstall(ctx); fault.KindOf(err) != fault.NotFound {
		t.Errorf("%v", err)
	}
	for range 2 { // the second replaces the first
		if err := s.Install(ctx); err != nil {
			t.Fatal(err)
		}
		want(Status{Installed: true, Current: true, Running: true})
	}
	s.program = "/bin/moved"
	want(Status{Installed: true, Running: true})
	if err := s.Uninstall(ctx); err != nil {
		t.Fatal(err)
	}
	want(Status{})

	s.manager = stub{dir: dir, fail: true}
	if err := s.Install(ctx); fault.KindOf(err) != fault.Execution || !strings.Contains(err.Error(), "no session") || fault.AdviceOf(err) == "" {
		t.Errorf("%v", err)
	}
	gone := func() {
		t.Helper()
		if _, err := os.Stat(s.File()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the description stays: %v", err)
		}
	}
	gone() // as it was before
	if err := s.Ready(ctx); err == nil {
		t.Error("who cannot be spoken with is ready")
	}
	if err := os.WriteFile(s.File(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Uninstall(ctx); err == nil {
		t.Error("the failure is not told")
	}
	gone()
}

func TestLabels(t *testing.T) {
	t.Setenv("HOME", "/home/x")
	usual, other := Service{home: "/home/x/.osaurus"}, Service{home: "/srv/other"}
	if usual.label() != label || other.label() == label || !strings.HasPrefix(other.label(), label+"-") {
		t.Errorf("%s %s", usual.label(), other.label())
	}
}
