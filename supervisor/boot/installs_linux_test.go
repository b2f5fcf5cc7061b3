package boot_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/tools"
	"osaurus-sandbox/tools/packages"
	"osaurus-sandbox/tools/packages/packagestest"
)

// installPatience bounds an install in an emulated guest on a busy host.
const installPatience = 4 * time.Minute

// packageTester installs packages for agents in a booted guest, from repositories of the test.
type packageTester struct {
	home  *home
	tools *tools.Registry
}

// installs installs packages with the distribution's own manager. What depends only on what
// a manager prints is in package tools.
func installs(t *testing.T, h *home, distribution string) {
	host := tools.Host{
		Rooms:     func(a tools.Agent) engine.Room { return h.guest.Room(a.User) },
		Installer: tools.NewInstaller(func(a tools.Agent) engine.Executor { return h.guest.Room(a.User) }),
	}
	s := &packageTester{h, tools.NewRegistry(slog.New(slog.DiscardHandler), tools.Sandbox(host)...)}
	switch {
	case distribution == "Debian":
		s.tryAll(t, debian(t))
	case h.image.Arch == "amd64":
		s.tryAll(t, alpine(t))
	default:
		t.Skip("the test's packages are for amd64")
	}
}

// agent makes an agent and its room.
func (s *packageTester) agent(t *testing.T, name string, uid uint32) tools.Agent {
	t.Helper()
	settings := config.AgentDefaults()
	settings.AutonomousExec = true
	a := tools.Agent{ID: config.AgentID(name), Name: config.AgentName(name), User: config.LinuxUser("agent-" + name), Home: guest.HomesDir + "/" + name, Settings: settings}
	if err := os.MkdirAll(filepath.Join(s.home.workspace, "agents", name), 0o755); err != nil {
		t.Fatal(err)
	}
	s.home.own("agents/"+name, uid)
	room := engine.RoomConfig{User: a.User, UID: uid, Home: a.Home, Hostname: name, Address: s.home.join(t, a.User)}
	if _, err := s.home.guest.Client.EnsureRoom(t.Context(), room, s.home.mint(room.User, uid)); err != nil {
		t.Fatal(err)
	}
	return a
}

// sh runs a script in an agent's room and returns its output.
func (s *packageTester) sh(t *testing.T, a tools.Agent, root bool, script string) string {
	t.Helper()
	var out bytes.Buffer
	exit, err := engine.Run(t.Context(), s.home.guest.Room(a.User), engine.Command{Args: []string{"sh", "-c", script}, RoomRoot: root, Stdout: &out, Stderr: &out})
	if err != nil || exit.Status() != 0 {
		t.Fatalf("%s: %+v %v\n%s", script, exit, err, &out)
	}
	return out.String()
}

// install has an agent install a package.
func (s *packageTester) install(ctx context.Context, a tools.Agent, name string) tools.Envelope {
	return s.tools.Call(ctx, tools.Call{Agent: a, Tell: func(tools.Progress) {}}, "sandbox_install", []byte(`{"packages":["`+name+`"]}`))
}

// installed fails the test unless the package is installed.
func (s *packageTester) installed(t *testing.T, a tools.Agent, name string) {
	t.Helper()
	if e := s.install(t.Context(), a, name); !e.OK() {
		t.Fatalf("%s: %s", name, e.Text())
	}
}

// refused fails the test unless the install fails with this class.
func (s *packageTester) refused(t *testing.T, a tools.Agent, class packages.Class, name string) {
	t.Helper()
	e := s.install(t.Context(), a, name)
	if e.OK() || e.Failure.Kind != fault.Execution || e.Failure.More["failure_class"] != class || e.Failure.More["cleanup_failed"] != nil {
		t.Errorf("%s, want %s: %s", name, class, e.Text())
	}
}

// cancelled cancels an install while it waits for a path of the repository.
func (s *packageTester) cancelled(t *testing.T, m *system, a tools.Agent, path, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), installPatience)
	defer cancel()
	m.repository.Inspect(func(asked string) {
		if asked == path {
			cancel()
		}
	})
	defer m.repository.Inspect(nil)
	if e := s.install(ctx, a, name); e.OK() || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("%s was cancelled: %v, %s", name, ctx.Err(), e.Text())
	}
}

// system is the package manager of a distribution, with a repository for it.
type system struct {
	repository interface {
		Publish(testing.TB, ...packagestest.Package)
		Serve(t testing.TB, to string) (url string)
		Inspect(func(string))
		Put(string, []byte)
	}
	setUp  string                     // makes a room use this repository and no other
	list   string                     // prints what is installed
	tamper func(packagestest.Package) // replaces a package's file after it was signed; nil without signatures
}

func alpine(t *testing.T) *system {
	r := packagestest.NewAPK(t)
	return &system{
		repository: r, list: "cat /etc/apk/world; apk info 2>/dev/null | sort",
		tamper: func(p packagestest.Package) {
			p.Files = map[string]string{"usr/bin/other": "another\n"}
			r.Replace(t, p)
		},
		setUp: "cat > /etc/apk/keys/" + packagestest.KeyName + " <<EOF\n" + r.PublicKey(t) + "EOF\n" +
			"for r in main community; do echo URL/v3.20/$r; done > /etc/apk/repositories",
	}
}

func debian(t *testing.T) *system {
	return &system{
		repository: packagestest.NewAPT(t), list: "dpkg-query --show",
		setUp: "echo 'deb [trusted=yes] URL ./' > /etc/apt/sources.list",
	}
}

// tryAll installs packages of the system.
func (s *packageTester) tryAll(t *testing.T, m *system) {
	url := m.repository.Serve(t, packagestest.ToGuests)
	program := func(name string) map[string]string {
		return map[string]string{"usr/bin/" + name: "#!/bin/sh\ncat /usr/share/greeting /etc/greet.conf\n"}
	}
	tampered := packagestest.Package{Name: "tampered", Files: program("tampered")}
	m.repository.Publish(t, tampered,
		packagestest.Package{Name: "libgreet", Files: map[string]string{"usr/share/greeting": "hello from a package\n"}},
		packagestest.Package{Name: "greet", Depends: "libgreet", PostInstall: "#!/bin/sh\necho configured > /etc/greet.conf\n", Files: program("greet")},
		packagestest.Package{Name: "broken", Depends: "libgreet", PostInstall: "#!/bin/sh\necho oh no\nexit 3\n", Files: program("broken")},
		packagestest.Package{Name: "held", PostInstall: "#!/bin/sh\nwget -q -O /dev/null " + url + "/held\n", Files: program("held")},
	)
	m.repository.Put("/held", []byte("here\n"))
	ines, ivo := s.agent(t, "ines", 2101), s.agent(t, "ivo", 2102)
	for _, a := range []tools.Agent{ines, ivo} {
		s.sh(t, a, true, strings.ReplaceAll(m.setUp, "URL", url))
	}
	before := s.sh(t, ines, true, m.list)
	s.refused(t, ines, packages.Script, "broken")
	if m.tamper != nil {
		m.tamper(tampered)
		s.refused(t, ines, packages.Signature, "tampered")
	}
	if after := s.sh(t, ines, true, m.list); after != before {
		t.Errorf("after installs that failed there is %q, before %q", after, before)
	}
	if s.installed(t, ines, "greet"); s.sh(t, ines, false, "greet") != "hello from a package\nconfigured\n" {
		t.Error("what is installed does not run")
	}
	if got := s.sh(t, ivo, false, "command -v greet || echo none"); got != "none\n" {
		t.Errorf("another agent has it too: %s", got)
	}
	s.cancelled(t, m, ines, "/held", "held")
	s.installed(t, ines, "held")
}
