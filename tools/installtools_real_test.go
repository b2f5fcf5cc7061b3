package tools

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/tools/packages"
	"osaurus-sandbox/tools/packages/packagestest"
)

// thisHost runs commands on this host, with the agent's home as the only environment.
type thisHost struct {
	engine.Room
	agent Agent
}

func (h thisHost) Exec(ctx context.Context, c engine.Command) (engine.Process, error) {
	program := find(c.Args[0], h.agent)
	if program == "" {
		return nil, fault.New(fault.NotFound, "run command", c.Args[0], os.ErrNotExist)
	}
	cmd := exec.CommandContext(ctx, program, c.Args[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = append([]string{"HOME=" + h.agent.Home}, c.Env...), c.Dir, c.Stdout, c.Stderr
	cmd.WaitDelay = 10 * time.Second // for children that keep its output open
	return &onHost{ctx: ctx, cmd: cmd}, cmd.Start()
}

// find looks up a program in an agent's PATH.
func find(program string, a Agent) string {
	if filepath.IsAbs(program) {
		if _, err := os.Stat(program); err != nil {
			return ""
		}
		return program
	}
	for dir := range strings.SplitSeq(strings.TrimPrefix(environment(a)[0], "PATH="), ":") {
		if path := find(dir+"/"+program, a); path != "" {
			return path
		}
	}
	return ""
}

type onHost struct {
	engine.Process
	ctx context.Context
	cmd *exec.Cmd
}

func (p *onHost) Wait() (engine.Exit, error) {
	err := p.cmd.Wait()
	if p.ctx.Err() != nil {
		return engine.Exit{}, context.Cause(p.ctx)
	}
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		return engine.Exit{Code: p.cmd.ProcessState.ExitCode()}, nil
	}
	return engine.Exit{}, err
}

// customer is an agent that installs with this host's pip or npm.
type customer struct {
	t         *testing.T
	installer *Installer
	manager   packages.Manager
	home      string
}

func newCustomer(t *testing.T, m packages.Manager) customer {
	return customer{t, NewInstaller(func(a Agent) engine.Executor { return thisHost{agent: a} }), m, t.TempDir()}
}

func (c customer) install(ctx context.Context, names ...string) (Installed, error) {
	call := Call{Agent: Agent{ID: "A", Name: "alice", Home: c.home, Settings: config.AgentDefaults()}}
	return c.installer.Install(ctx, &call, c.manager, names)
}

func (c customer) installed(names ...string) (retried bool) {
	c.t.Helper()
	r, err := c.install(c.t.Context(), names...)
	if err != nil {
		c.t.Fatalf("%v: %v", names, told(err))
	}
	return r.Retried
}

func (c customer) refused(class packages.Class, names ...string) {
	c.t.Helper()
	_, err := c.install(c.t.Context(), names...)
	if f, ok := errors.AsType[*Failure](err); !ok || f.Kind != fault.Execution || f.More["failure_class"] != class {
		c.t.Errorf("%v, want %s: %v", names, class, told(err))
	}
}

// cancelled cancels an install when it requests a path of a server.
func (c customer) cancelled(server *packagestest.Server, at string, names ...string) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	server.Inspect(func(path string) {
		if path == at {
			cancel()
			<-ctx.Done()
		}
	})
	defer server.Inspect(nil)
	if _, err := c.install(ctx, names...); err == nil || ctx.Err() == nil {
		c.t.Errorf("%v was cancelled: %v", names, err)
	}
}

func (c customer) keep(name, text string) {
	c.t.Helper()
	path := filepath.Join(c.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// says runs a program as the agent.
func (c customer) says(program string, args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), program, args...)
	cmd.Env = append(environment(Agent{Home: c.home}), "HOME="+c.home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Errorf("%s %v: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// told formats an error with the output.
func told(err error) string {
	if f, ok := errors.AsType[*Failure](err); ok {
		return fail("", f).Text()
	}
	return fmt.Sprint(err)
}

// A real pip installs from an index of the test.
func TestPip(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("pip is slow: make kernel runs it once")
	}
	if out, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-m", "ensurepip", "--version").CombinedOutput(); err != nil {
		t.Skipf("\n*** NO PYTHON on this host that makes environments: %v\n%s", err, out)
	}
	c := newCustomer(t, packages.Pip)
	held := packagestest.Package{Name: "held"}
	index := packagestest.NewPip(t,
		packagestest.Package{Name: "greetlib", Files: map[string]string{"greetlib.py": "text = 'hello from a module'\n"}},
		packagestest.Package{Name: "greeting", Depends: "greetlib>=1", Files: map[string]string{"greeting.py": "from greetlib import text\n"}},
		packagestest.Package{Name: "picky", Depends: "greetlib>=2"},
		held,
	)
	c.keep(".config/pip/pip.conf", index.Config(t, packagestest.ToHost))
	if c.installed("greeting >= 1") {
		t.Error("making the environment counts as a second attempt")
	}
	if got := c.says(packages.Venv(c.home)+"/bin/python3", "-c", "import greeting; print(greeting.text)"); got != "hello from a module\n" {
		t.Error(got)
	}
	c.refused(packages.Missing, "nothing")
	c.refused(packages.Conflict, "picky", "greetlib==1.0")
	c.cancelled(&index.Server, held.WheelPath(), "held")
	c.installed("held")

	// An interrupted attempt to make the environment is repaired.
	site, err := filepath.Glob(packages.Venv(c.home) + "/lib/python*/site-packages/pip")
	if err != nil || len(site) != 1 {
		t.Fatalf("%q %v", site, err)
	}
	if err := os.RemoveAll(site[0]); err != nil {
		t.Fatal(err)
	}
	if !c.installed("held") {
		t.Error("an environment without pip did not matter")
	}
}

// equip gives the agent an old npm, which leaves more damage than the newest.
func (c customer) equip() {
	c.t.Helper()
	archive := lab.NPM(c.t)
	if archive == "" {
		c.t.Skip("no npm")
	}
	for _, args := range [][]string{{"mkdir", "-p", c.home + "/.venv/bin"}, {"tar", "-xzf", archive, "-C", c.home}, {"chmod", "755", c.home + "/package/bin/npm-cli.js"}, {"ln", "-s", c.home + "/package/bin/npm-cli.js", c.home + "/.venv/bin/npm"}} {
		if out, err := exec.CommandContext(c.t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			c.t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
}

// A real npm installs from a registry of the test.
func TestNPM(t *testing.T) {
	t.Parallel()
	c := newCustomer(t, packages.NPM)
	c.equip()
	held := packagestest.Package{Name: "held", Files: map[string]string{"index.js": ""}}
	registry := packagestest.NewNPM(t, packagestest.ToHost,
		packagestest.Package{Name: "greetlib", Files: map[string]string{"index.js": "module.exports = 'hello from a module'\n"}},
		packagestest.Package{Name: "@test/greeting", Depends: "greetlib", Files: map[string]string{"index.js": "module.exports = require('greetlib')\n"}},
		packagestest.Package{Name: "broken", PostInstall: "exit 3", Files: map[string]string{"index.js": ""}},
		held, packagestest.Package{Name: "held", Version: "2.0"},
	)
	c.keep(".npmrc", registry.Config())
	c.installed("@test/greeting@^1")
	if got := c.says("node", "-p", `require("@test/greeting")`); got != "hello from a module\n" {
		t.Error(got)
	}
	c.refused(packages.Missing, "nothing")
	c.refused(packages.Build, "broken")
	c.cancelled(&registry.Server, held.TarballPath(), "held@1")
	c.installed("held@1")
	if got := c.says("ls", packages.Workspace(c.home)+"/node_modules"); got != "@test\ngreetlib\nheld\n" {
		t.Errorf("failed packages are left: %s", got)
	}

	// A folder that a killed npm has half renamed blocks other versions of the package. Its name is a
	// hash of its path.
	folder := packages.Workspace(c.home) + "/node_modules/held"
	sum := sha1.Sum([]byte(folder))
	tag := regexp.MustCompile(`[^a-zA-Z0-9]+`).ReplaceAllString(base64.StdEncoding.EncodeToString(sum[:]), "")[:8]
	c.keep(".osaurus/node_workspace/node_modules/.held-"+tag+"/half", "")
	if !c.installed("held@2") {
		t.Error("a half-renamed folder did not matter")
	}
}
