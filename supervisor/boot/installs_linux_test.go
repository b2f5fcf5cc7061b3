package boot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// installPatience bounds what is waited for while something installs, on a busy
// host and an emulated machine.
const installPatience = 4 * time.Minute

// shop is agents who install in a booted guest, from repositories that the test makes
// and serves.
type shop struct {
	home  *home
	tools *tools.Registry
}

// installs tries the tools that install. What is the same with any manager is tried with
// apk: on an emulated processor apt takes ten times as long.
func installs(t *testing.T, h *home, distribution string) {
	s := newShop(h)
	if distribution == "Alpine" {
		if h.image.Arch != "amd64" {
			t.Skip("the test's packages are for amd64")
		}
		t.Run("System", func(t *testing.T) { s.sellSystem(t, alpine(t)) })
		t.Run("Bare", func(t *testing.T) { s.unequipped(t, "sandbox_pip_install", "sandbox_npm_install") })
		return
	}
	t.Run("System", func(t *testing.T) { s.sellSystem(t, debian(t)) })
	t.Run("Python", s.sellPython)
	t.Run("Node", s.sellNode)
}

func newShop(h *home) *shop {
	host := tools.Host{
		Rooms:     func(a tools.Agent) engine.Room { return h.guest.Room(a.User) },
		Installer: tools.NewInstaller(func(a tools.Agent) engine.Executor { return h.guest.Room(a.User) }),
	}
	return &shop{h, tools.NewRegistry(slog.New(slog.DiscardHandler), tools.Sandbox(host)...)}
}

// agent makes an agent and its room.
func (s *shop) agent(t *testing.T, name string, uid uint32) tools.Agent {
	t.Helper()
	settings := config.AgentDefaults()
	settings.AutonomousExec = true
	a := tools.Agent{ID: config.AgentID(name), Name: config.AgentName(name), User: config.LinuxUser("agent-" + name), Home: guest.HomesDir + "/" + name, Settings: settings}
	if err := os.MkdirAll(s.onHost(a, ""), 0o755); err != nil {
		t.Fatal(err)
	}
	s.home.own("agents/"+name, uid)
	room := engine.RoomConfig{User: a.User, UID: uid, Home: a.Home, Hostname: name, HostServices: true}
	if _, err := s.home.guest.Client.EnsureRoom(t.Context(), room, s.home.mint(room.User, uid)); err != nil {
		t.Fatal(err)
	}
	return a
}

// onHost is a file of an agent's home as this host has it.
func (s *shop) onHost(a tools.Agent, name string) string {
	return filepath.Join(s.home.workspace, "agents", string(a.Name), name)
}

// keep writes a file of an agent's home.
func (s *shop) keep(t *testing.T, a tools.Agent, name, text string) {
	t.Helper()
	path := s.onHost(a, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sh runs a script in an agent's room and returns what it wrote.
func (s *shop) sh(t *testing.T, a tools.Agent, root bool, script string) string {
	t.Helper()
	var out bytes.Buffer
	exit, err := engine.Run(t.Context(), s.home.guest.Room(a.User), engine.Command{Args: []string{"sh", "-c", script}, RoomRoot: root, Stdout: &out, Stderr: &out})
	if err != nil || exit.Status() != 0 {
		t.Fatalf("%s: %+v %v\n%s", script, exit, err, &out)
	}
	return out.String()
}

// call has an agent install packages. Tell, if not nil, is told what is told.
func (s *shop) call(ctx context.Context, t *testing.T, a tools.Agent, tool string, tell func(string), names ...string) tools.Envelope {
	t.Helper()
	arguments, err := json.Marshal(map[string]any{"packages": names})
	if err != nil {
		t.Fatal(err)
	}
	return s.tools.Call(ctx, tools.Call{Agent: a, Tell: func(p tools.Progress) {
		if tell != nil {
			tell(p.Text)
		}
	}}, tool, arguments)
}

// installed demands that something is installed, and says whether it took two
// attempts.
func (s *shop) installed(t *testing.T, a tools.Agent, tool string, names ...string) (retried bool) {
	t.Helper()
	e := s.call(t.Context(), t, a, tool, nil, names...)
	r, ok := e.Result.(tools.Installed)
	if !ok || !e.OK() {
		t.Fatalf("%s %v: %s", tool, names, e.Text())
	}
	return r.Retried
}

// refused demands that nothing is installed, for a reason.
func (s *shop) refused(t *testing.T, a tools.Agent, tool string, class packages.Class, names ...string) {
	t.Helper()
	e := s.call(t.Context(), t, a, tool, nil, names...)
	if e.OK() || e.Failure.Kind != fault.Execution || e.Failure.More["failure_class"] != class || e.Failure.More["cleanup_failed"] != nil {
		t.Errorf("%s %v, want %s: %s", tool, names, class, e.Text())
	}
}

// cancelled has an install be given up when a path of a server is asked for, and
// keeps that request waiting until then.
func (s *shop) cancelled(t *testing.T, a tools.Agent, tool string, server interface{ Inspect(func(string)) }, at string, names ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan struct{})
	var once sync.Once
	server.Inspect(func(path string) {
		if path == at {
			once.Do(func() { close(asked) })
			<-ctx.Done()
		}
	})
	defer server.Inspect(nil)
	ended := make(chan tools.Envelope, 1)
	go func() { ended <- s.call(ctx, t, a, tool, nil, names...) }()
	select {
	case <-asked:
	case e := <-ended:
		t.Fatalf("%s %v ended before: %s", tool, names, e.Text())
	case <-time.After(installPatience):
		t.Fatalf("%s never asked for %s", tool, at)
	}
	cancel()
	if e := <-ended; e.OK() {
		t.Errorf("%s %v was given up, and: %s", tool, names, e.Text())
	}
}

// system is the package manager of a distribution, with a repository for it.
type system struct {
	repository interface {
		Publish(testing.TB, ...packagestest.Package)
		Serve(t testing.TB, to string) (url string)
		Inspect(func(string))
		Put(string, []byte)
		Drop(string)
	}
	setUp  string                     // has a room use it and no other
	list   string                     // says what is installed
	lock   string                     // takes the manager's lock and holds it
	tamper func(packagestest.Package) // has a package's file not be what was signed
	spared bool                       // what comes of each manager's answers is tried in package packages
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
		lock: "exec flock /lib/apk/db/lock sh -c 'echo locked; sleep 1000'",
	}
}

func debian(t *testing.T) *system {
	r := packagestest.NewAPT(t)
	return &system{
		repository: r, list: "dpkg-query --show", spared: true,
		setUp: "echo 'deb [trusted=yes] URL ./' > /etc/apt/sources.list",
		lock:  `exec python3 -c 'import fcntl, time; f = open("/var/lib/dpkg/lock-frontend", "w"); fcntl.lockf(f, fcntl.LOCK_EX); print("locked", flush=True); time.sleep(1000)'`,
	}
}

// goods are the packages of the tests. Some of their scripts ask the server, which
// answers when the test has come so far.
func goods(server string) []packagestest.Package {
	ask := func(path string) string { return "#!/bin/sh\nwget -q -O /dev/null " + server + path + "\n" }
	program := func(name string) map[string]string {
		return map[string]string{"usr/bin/" + name: "#!/bin/sh\ncat /usr/share/greeting /etc/greet.conf\n"}
	}
	return []packagestest.Package{
		{Name: "libgreet", Files: map[string]string{"usr/share/greeting": "hello from a package\n"}},
		{Name: "greet", Depends: "libgreet", PostInstall: "#!/bin/sh\necho configured > /etc/greet.conf\n", Files: program("greet")},
		{Name: "broken", Depends: "libgreet", PostInstall: "#!/bin/sh\necho oh no\nexit 3\n", Files: program("broken")},
		{Name: "needy", Depends: "nowhere", Files: program("needy")},
		{Name: "tampered", Files: program("tampered")},
		{Name: "held", PostInstall: ask("/held"), Files: program("held")},
		{Name: "meet", PostInstall: ask("/meet/$(hostname)"), Files: program("meet")},
		{Name: "moving", Files: program("moving")},
	}
}

// sellSystem installs packages of the system.
func (s *shop) sellSystem(t *testing.T, m *system) {
	const tool = "sandbox_install"
	url := m.repository.Serve(t, packagestest.ToGuests)
	stock := goods(url)
	m.repository.Publish(t, stock...)
	for _, path := range []string{"/held", "/meet/ines", "/meet/ivo"} {
		m.repository.Put(path, []byte("here\n"))
	}
	find := func(name string) packagestest.Package {
		for _, p := range stock {
			if p.Name == name {
				return p
			}
		}
		t.Fatal("no package " + name)
		return packagestest.Package{}
	}
	ines, ivo := s.agent(t, "ines", 2101), s.agent(t, "ivo", 2102)
	for _, a := range []tools.Agent{ines, ivo} {
		s.sh(t, a, true, strings.ReplaceAll(m.setUp, "URL", url))
	}
	before := s.sh(t, ines, true, m.list)
	same := func(t *testing.T, when string) {
		t.Helper()
		if after := s.sh(t, ines, true, m.list); after != before {
			t.Errorf("%s there is %q, before it %q", when, after, before)
		}
	}

	// What fails leaves nothing, and does not stand in the way.
	s.refused(t, ines, tool, packages.Script, "broken")
	if !m.spared {
		s.refused(t, ines, tool, packages.Missing, "nothing")
		m.tamper(find("tampered"))
		s.refused(t, ines, tool, packages.Signature, "tampered")
	}
	same(t, "after installs that failed")

	if s.installed(t, ines, tool, "greet"); s.sh(t, ines, false, "greet") != "hello from a package\nconfigured\n" {
		t.Error("what is installed does not run")
	}
	if got := s.sh(t, ivo, false, "command -v greet || echo none"); got != "none\n" {
		t.Errorf("another agent has it too: %s", got)
	}
	s.waitForLock(t, m, ines)
	s.cancelled(t, ines, tool, m.repository, "/held", "held")
	s.installed(t, ines, tool, "held")
	if m.spared {
		return
	}

	// The server has a newer one, which the index does not know yet.
	newer := find("moving")
	newer.Version = "2.0"
	var once sync.Once
	m.repository.Drop(find("moving").Path())
	m.repository.Inspect(func(path string) {
		if path == find("moving").Path() {
			once.Do(func() { m.repository.Publish(t, append([]packagestest.Package{newer}, stock[:len(stock)-1]...)...) })
		}
	})
	if !s.installed(t, ines, tool, "moving") {
		t.Error("a stale index was of no matter")
	}
	m.repository.Inspect(nil)
	m.repository.Publish(t, stock...)

	s.meet(t, m, ines, ivo)
}

// waitForLock installs while another program has the manager's lock.
func (s *shop) waitForLock(t *testing.T, m *system, a tools.Agent) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	locked := make(chan struct{})
	holder, err := s.home.guest.Room(a.User).Exec(ctx, engine.Command{
		Args: []string{"sh", "-c", m.lock}, RoomRoot: true, Grace: time.Second, Stdout: signal{"locked", locked},
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-locked:
	case <-holder.Done():
		t.Fatal("nobody holds the lock")
	}
	e := s.call(t.Context(), t, a, "sandbox_install", func(text string) {
		if strings.Contains(text, "lock") {
			cancel()
		}
	}, "libgreet")
	if !e.OK() {
		t.Errorf("behind a lock that is given back: %s", e.Text())
	}
	cancel()
	_, _ = holder.Wait()
}

// signal is closed when a text is written.
type signal struct {
	text string
	seen chan struct{}
}

func (s signal) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.text) {
		close(s.seen)
	}
	return len(p), nil
}

// meet has two agents install a package whose script ends only when both are in it.
func (s *shop) meet(t *testing.T, m *system, agents ...tools.Agent) {
	var mu sync.Mutex
	there, all := map[string]bool{}, make(chan struct{})
	m.repository.Inspect(func(path string) {
		if !strings.HasPrefix(path, "/meet/") {
			return
		}
		mu.Lock()
		if there[path] = true; len(there) == len(agents) {
			select {
			case <-all: // somebody asks again
			default:
				close(all)
			}
		}
		mu.Unlock()
		select {
		case <-all:
		case <-time.After(installPatience):
			t.Error("the others are not installing meanwhile")
		}
	})
	defer m.repository.Inspect(nil)
	var work sync.WaitGroup
	for _, a := range agents {
		work.Go(func() {
			if e := s.call(t.Context(), t, a, "sandbox_install", nil, "meet"); !e.OK() {
				t.Errorf("at the same time: %s", e.Text())
			}
		})
	}
	work.Wait()
}
