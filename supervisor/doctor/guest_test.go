package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/doctor"
	"osaurus-sandbox/supervisor/machine"
)

// fake is a healthy sandbox with agents, until a test changes it.
type fake struct {
	home      config.Home
	start     error
	info      func(context.Context) (*guest.Info, error)
	diagnosed error
	answers   []answer // of commands; the first that matches counts
}

type answer struct {
	in   string // the command line contains this
	do   func(f *fake, args []string) string
	code int
	hang bool // until its context ends
}

func healthyFake(t *testing.T) *fake {
	f := &fake{home: config.Home(t.TempDir()), info: func(context.Context) (*guest.Info, error) { return healthy(), nil }}
	if err := os.MkdirAll(f.home.SharedFolder(), 0o700); err != nil {
		t.Fatal(err)
	}
	text := func(s string) func(*fake, []string) string { return func(*fake, []string) string { return s } }
	f.answers = []answer{
		{in: "echo hello", do: text("hello from sandbox")},
		{in: "fetch", do: text("200 OK, 5 bytes")},
		{in: "getent", do: text("192.0.2.1 example.com")},
		{in: "df -Pk", do: text("4194304")},
		{in: "id -un", do: text("agent-diag 10001 " + agent().Home())},
		{in: "apk add", do: text("OK")},
		{in: "osaurus-host log", do: text("")},
		{in: "cat ", do: func(f *fake, args []string) string { return f.shared(args[4]).read() }},
		{in: "printf %s", do: func(f *fake, args []string) string { f.shared(args[5]).write(args[4]); return "" }},
	}
	return f
}

func healthy() *guest.Info {
	return &guest.Info{TimeUnixNano: time.Now().UnixNano(), OsRelease: map[string]string{"ID": "alpine"}, Network: "up"}
}

func agent() agents.Agent {
	return agents.Agent{Name: agents.Diagnostic, User: "agent-diag", UID: 10001, Folder: agents.Diagnostic}
}

// answer changes the output and exit code of commands that contain a text.
func (f *fake) answer(in, text string, code int) {
	f.answers = slices.Insert(f.answers, 0, answer{in: in, do: func(*fake, []string) string { return text }, code: code})
}

// shared is the host's file for a path in the guest's shared folder.
func (f *fake) shared(inGuest string) file {
	return file(filepath.Join(f.home.SharedFolder(), filepath.Base(inGuest)))
}

type file string

func (f file) read() string      { b, _ := os.ReadFile(string(f)); return string(b) }
func (f file) write(text string) { _ = os.WriteFile(string(f), []byte(text), 0o600) }

func (f *fake) Home() config.Home                          { return f.home }
func (f *fake) Start(context.Context, machine.Cause) error { return f.start }
func (f *fake) Status() machine.Status {
	return machine.Status{State: machine.Running, Machine: &boot.Machine{Network: true}}
}
func (f *fake) Info(ctx context.Context) (*guest.Info, error) { return f.info(ctx) }

func (f *fake) Exec(ctx context.Context, cmd engine.Command) (engine.Process, error) {
	line := strings.Join(cmd.Args, " ")
	for _, s := range f.answers {
		if strings.Contains(line, s.in) {
			return process{ctx, s, s.do(f, cmd.Args), cmd.Stdout}, nil
		}
	}
	return nil, fault.Newf(fault.NotFound, "run", line, "unknown command")
}

type fakeAgents struct{ *fake }

func (s fakeAgents) Diagnostic(context.Context, machine.Cause) (agents.Agent, error) {
	return agent(), s.diagnosed
}

func (s fakeAgents) Exec(ctx context.Context, ref string, cmd engine.Command) (engine.Process, error) {
	if ref != string(agents.Diagnostic) {
		return nil, errors.New("another agent's room: " + ref)
	}
	return s.fake.Exec(ctx, cmd)
}

type process struct {
	ctx context.Context
	answer
	text string
	out  io.Writer
}

func (p process) PID() int                                    { return 1 }
func (p process) Resize(engine.TerminalSize) error            { return nil }
func (p process) Signal(context.Context, engine.Signal) error { return nil }
func (p process) Done() <-chan struct{}                       { return p.ctx.Done() }
func (p process) Wait() (engine.Exit, error) {
	if p.hang {
		<-p.ctx.Done()
		return engine.Exit{}, p.ctx.Err()
	}
	_, err := io.WriteString(p.out, p.text+"\n")
	return engine.Exit{Code: p.code}, err
}

const target doctor.Target = "http://example.com/file"

// run returns the results of all checks by name. A busy host does not make their answers late.
func run(t *testing.T, f *fake, target doctor.Target) (results map[string]doctor.Result) {
	t.Helper()
	timetest.Synthetic(t, func(t *testing.T) { results = diagnose(t, f, target) })
	return results
}

// diagnose is run in synthetic time.
func diagnose(t *testing.T, f *fake, target doctor.Target) map[string]doctor.Result {
	t.Helper()
	results := map[string]doctor.Result{}
	for r := range doctor.Diagnose(t.Context(), f, fakeAgents{f}, target) {
		if _, twice := results[r.Name]; twice {
			t.Errorf("%s is checked twice", r.Name)
		}
		results[r.Name] = r
	}
	return results
}

// TestMirror: without a target, the package tool's first mirror must answer.
func TestMirror(t *testing.T) {
	for _, dead := range []bool{false, true} {
		f := healthyFake(t)
		f.info = func(context.Context) (*guest.Info, error) {
			info := healthy()
			info.OsRelease = map[string]string{"ID": "debian"}
			return info, nil
		}
		f.answer("apt-get install", "OK", 0)
		if dead {
			f.answer("deb.example", "no route", 1)
		}
		f.answer("apt-get update", "http://deb.example/debian/InRelease\nhttp://other.example/InRelease", 0)
		found := run(t, f, "")
		for _, name := range []string{"network", "dns"} {
			if r := found[name]; r.Passed() == dead || dead && !strings.Contains(r.Found(), "no route") {
				t.Errorf("%v dead: %+v", dead, r)
			}
		}
		if did := found["network"].Did; did != "fetch http://deb.example/debian/InRelease in the guest" {
			t.Errorf("it did %q", did)
		}
	}
}

var afterStart = []string{"agent-user", "bridge", "clock", "disk-guest", "disk-host", "dns", "exec", "network", "packages", "virtiofs-to-guest", "virtiofs-to-host", "vsock"}

func TestHealthy(t *testing.T) {
	results := run(t, healthyFake(t), target)
	for _, name := range afterStart {
		if r, did := results[name]; !did || !r.Passed() || r.Did == "" || r.Found() == "" {
			t.Errorf("%s: %v, %+v", name, did, r)
		}
	}
	if len(results) != len(afterStart) {
		t.Errorf("%d checks, not %d", len(results), len(afterStart))
	}
}

// TestEachCheckFails: each problem fails its own check only, with advice.
func TestEachCheckFails(t *testing.T) {
	of := func(change func(*guest.Info)) func(*fake) {
		return func(f *fake) {
			f.info = func(context.Context) (*guest.Info, error) {
				info := healthy()
				change(info)
				return info, nil
			}
		}
	}
	for _, c := range []struct {
		name   string
		spoil  func(*fake)
		fail   []string
		advice string
	}{
		{"prints something else", func(f *fake) { f.answer("echo hello", "goodbye", 0) }, []string{"exec"}, "osaurus-sandbox restart"},
		{"runs nothing", func(f *fake) { f.answer("echo hello", "no shell", 127) }, []string{"exec"}, "osaurus-sandbox provision"},
		{"network has failed", of(func(i *guest.Info) {
			i.Network, i.NetworkTrouble = "failed", "no such network interface"
		}), []string{"network", "dns"}, "firewall or VPN"},
		{"fetches nothing", func(f *fake) { f.answer("fetch", "connection refused", 1) }, []string{"network"}, "firewall or VPN"},
		{"resolves nothing", func(f *fake) { f.answer("getent", "", 2) }, []string{"dns"}, "/etc/resolv.conf"},
		{"reads another file", func(f *fake) { f.answer("cat ", "old", 0) }, []string{"virtiofs-to-guest"}, "you own the workspace"},
		{"writes nothing", func(f *fake) { f.answer("printf %s", "read-only file system", 1) }, []string{"virtiofs-to-host"}, "you own the workspace"},
		{"writes elsewhere", func(f *fake) { f.answer("printf %s", "", 0) }, []string{"virtiofs-to-host"}, "you own the workspace"},
		{"clock is behind", of(func(i *guest.Info) { i.TimeUnixNano -= int64(time.Minute) }), []string{"clock"}, "set every half minute"},
		{"clock is ahead", of(func(i *guest.Info) { i.TimeUnixNano += int64(time.Minute) }), []string{"clock"}, "set every half minute"},
		{"disk is full", func(f *fake) { f.answer("df -Pk", "1024", 0) }, []string{"disk-guest"}, "diskGB"},
		{"has no df", func(f *fake) { f.answer("df -Pk", "not found", 127) }, []string{"disk-guest"}, "osaurus-sandbox restart"},
		{"df prints nothing", func(f *fake) { f.answer("df -Pk", "", 0) }, []string{"disk-guest"}, "osaurus-sandbox restart"},
		{"is another user", func(f *fake) { f.answer("id -un", "root 0 /root", 0) }, []string{"agent-user"}, "reset"},
		{"no agent room", func(f *fake) { f.answer("id -un", "no room", 1) }, []string{"agent-user"}, "reset"},
		{"reaches no bridge", func(f *fake) { f.answer("osaurus-host", "no token", 6) }, []string{"bridge"}, "osaurus-sandbox restart"},
		{"installs nothing", func(f *fake) { f.answer("apk add", "no mirror", 1) }, []string{"packages"}, "mirrors"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := healthyFake(t)
			c.spoil(f)
			results := run(t, f, target)
			for _, name := range afterStart {
				r := results[name]
				switch failed := slices.Contains(c.fail, name); {
				case r.Passed() == failed:
					t.Errorf("%s: %+v", name, r)
				case failed && !strings.Contains(r.Advice(), c.advice):
					t.Errorf("%s advises %q", name, r.Advice())
				}
			}
		})
	}
}

// TestNoAgent: without a test agent, the checks that need it fail.
func TestNoAgent(t *testing.T) {
	f := healthyFake(t)
	f.diagnosed = fault.Newf(fault.Unavailable, "make agent", "", "no more").Advise("Remove one.")
	for name, r := range run(t, f, target) {
		if failed := name == "agent-user" || name == "bridge" || name == "packages"; r.Passed() == failed || failed && r.Advice() != "Remove one." {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestNoHome(t *testing.T) {
	f := healthyFake(t)
	f.start = fault.Newf(fault.Unavailable, "start", "", "no home").Advise("Make one.")
	f.home = config.Home(filepath.Join(t.TempDir(), "missing"))
	results := run(t, f, target)
	if r := results["start"]; r.Passed() || r.Advice() != "Make one." {
		t.Errorf("start: %+v", r)
	}
	if r := results["disk-host"]; r.Passed() || !strings.Contains(r.Found(), string(f.home)) {
		t.Errorf("disk-host: %+v", r)
	}
	if len(results) != 2 {
		t.Errorf("%d checks without a guest: %v", len(results), results)
	}
}

// TestEverythingHangs: checks run concurrently, so all end after the timeout of one.
func TestEverythingHangs(t *testing.T) {
	const limit = 30 * time.Second
	timetest.Synthetic(t, func(t *testing.T) {
		f := healthyFake(t)
		for i := range f.answers {
			f.answers[i].hang = true
		}
		began := time.Now()
		results := diagnose(t, f, target)
		if took := time.Since(began); took != limit {
			t.Errorf("it took %v", took)
		}
		for _, name := range []string{"agent-user", "bridge", "disk-guest", "dns", "exec", "network", "packages", "virtiofs-to-guest", "virtiofs-to-host"} {
			if r := results[name]; r.Passed() || r.Took != limit || r.Advice() == "" {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if len(results) != len(afterStart) {
			t.Errorf("%d results", len(results))
		}
	})
}

// TestSharedFolderReplaced: the guest's root can replace the shared folder with a link.
// Nothing is written or read through it.
func TestSharedFolderReplaced(t *testing.T) {
	f, elsewhere := healthyFake(t), t.TempDir()
	if err := errors.Join(os.Remove(f.home.SharedFolder()), os.Symlink(elsewhere, f.home.SharedFolder())); err != nil {
		t.Fatal(err)
	}
	written := ""
	f.answers = slices.Insert(f.answers, 0, answer{in: "cat ", do: func(f *fake, args []string) string {
		list, _ := os.ReadDir(elsewhere)
		written = fmt.Sprint(list)
		return ""
	}})
	results := run(t, f, target)
	for _, name := range []string{"virtiofs-to-guest", "virtiofs-to-host"} {
		if r := results[name]; r.Passed() {
			t.Errorf("%s passes: %s", name, r.Found())
		}
	}
	if strings.Contains(written, "diagnose") {
		t.Errorf("it wrote %s", written)
	}
}
