package install_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/tools"
	"osaurus-sandbox/tools/packages"
)

// errKilled is the error of all contacts after the daemon was killed.
var errKilled = errors.New("the daemon was killed")

// world fakes all that the installer depends on. Rooms are folders of this host with its programs, and apk is
// a list in a file. The daemon can be killed at each contact.
type world struct {
	t    *testing.T
	dir  string
	home config.Home

	mu       sync.Mutex
	boot     string
	asked    int // calls of Boot
	endsAt   int // the call of Boot at which the guest has ended; 0 is none
	missing  map[config.SecretName]bool
	gone     map[config.AgentID]bool
	agents   map[config.AgentID]tools.Agent
	fail     func(what string) error // the error of a contact; may be nil
	contacts int
	killAt   int // the contact at which the daemon is killed; 0 is none
	dead     bool
	commands int
	happened []install.What
	alive    map[string]bool // plugins whose daemons run
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), boot: "1", missing: map[config.SecretName]bool{}, gone: map[config.AgentID]bool{}, agents: map[config.AgentID]tools.Agent{}, alive: map[string]bool{}}
	w.home = config.Home(filepath.Join(w.dir, "home"))
	const apk = `#!/bin/sh
shift 3
for p; do grep -qxF -- "$p" "$HOME/../apk" && echo "$p"; done
exit 0
`
	w.write(filepath.Join(w.dir, "bin", "apk"), apk, 0o755)
	return w
}

func (w *world) write(path, text string, mode fs.FileMode) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		w.t.Fatal(err)
	}
}

// agent makes an agent with a home.
func (w *world) agent(name config.AgentName) tools.Agent {
	w.t.Helper()
	s := config.AgentDefaults()
	s.AutonomousExec = true
	a := tools.Agent{ID: config.AgentID(strings.ToUpper("00000000-0000-0000-0000-" + fmt.Sprintf("%012x", len(name)*1000+int(name[len(name)-1])))), Name: name, Home: filepath.Join(w.dir, "rooms", string(name), "home"), Settings: s}
	if err := os.MkdirAll(a.Home, 0o755); err != nil {
		w.t.Fatal(err)
	}
	w.agents[a.ID] = a
	return a
}

// open starts a daemon with these agents.
func (w *world) open(agents ...tools.Agent) (*install.Installer, *tools.Registry) {
	w.t.Helper()
	w.mu.Lock()
	w.dead, w.killAt, w.contacts = false, 0, 0
	w.mu.Unlock()
	registry := tools.NewRegistry(slog.New(slog.DiscardHandler))
	var ids []config.AgentID
	for _, a := range agents {
		ids = append(ids, a.ID)
	}
	i := install.Open(install.Options{
		Home: w.home, Agent: w.Agent, Start: w.Start, Boot: w.Boot, Room: w.Room, Packages: w.System, Secrets: w, Registry: registry, Life: w, Log: slog.New(slog.DiscardHandler),
		Note: func(h install.Happening) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.happened = append(w.happened, h.What)
		},
	}, ids)
	w.t.Cleanup(i.Close)
	return i, registry
}

// killAfter kills the daemon after so many more contacts.
func (w *world) killAfter(contacts int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.contacts, w.killAt = 0, contacts+1
}

func (w *world) killed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

// touch is a contact with the world. It fails if the daemon is killed before it.
func (w *world) touch(what string, do func() error) error {
	w.mu.Lock()
	if w.contacts++; w.contacts == w.killAt {
		w.dead = true
	}
	fail, dead := w.fail, w.dead
	w.mu.Unlock()
	if dead {
		return errKilled
	}
	if fail != nil {
		if err := fail(what); err != nil {
			return err
		}
	}
	return do()
}

func (w *world) Agent(id config.AgentID) (a tools.Agent, err error) {
	err = w.touch("agent", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		a = w.agents[id]
		if w.gone[id] {
			return fault.Newf(fault.NotFound, "find agent", string(id), "there is none")
		}
		return nil
	})
	return a, err
}

func (w *world) Start(context.Context) error {
	return w.touch("start", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.boot == "" {
			w.boot = "started"
		}
		return nil
	})
}

func (w *world) Boot() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked++; w.asked == w.endsAt {
		w.boot = ""
	}
	return w.boot
}

// endAfter ends the guest after so many more calls of Boot.
func (w *world) endAfter(questions int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked, w.endsAt = 0, questions+1
}

// ended reports whether the guest has ended, and cancels endAfter.
func (w *world) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endsAt = 0
	return w.boot == ""
}

// layer returns the path that replaces install.LayerFile.
func layer(a tools.Agent) string { return filepath.Join(a.Home, "../layer") }

// Room is install.Options.Room.
func (w *world) Room(a tools.Agent) engine.Room { return room{w: w, agent: a} }

// room is an agent's room.
type room struct {
	engine.Room
	w     *world
	agent tools.Agent
}

func (r room) Exec(ctx context.Context, c engine.Command) (engine.Process, error) {
	return r.w.exec(ctx, r.agent, c)
}

func (r room) WriteFile(_ context.Context, f engine.File, what engine.FileWrite) (engine.FileWritten, error) {
	return r.w.writeFile(f, what)
}

func (r room) ReadFile(_ context.Context, f engine.File, part engine.FilePart, to io.Writer) (engine.FileRead, error) {
	return r.w.readFile(f, part, to)
}

func (w *world) exec(ctx context.Context, a tools.Agent, c engine.Command) (p engine.Process, err error) {
	err = w.touch("exec", func() error {
		w.mu.Lock()
		w.commands++
		w.mu.Unlock()
		if c.MaxOutput > engine.MaxOutputLimit {
			return fault.Newf(fault.InvalidArgs, "check command", "", "%d bytes of output", c.MaxOutput)
		}
		args := slices.Clone(c.Args)
		for n, arg := range args {
			if arg == install.LayerFile {
				args[n] = layer(a)
			}
		}
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, c.Stdin, c.Stdout, c.Stderr
		cmd.Env = append([]string{"HOME=" + a.Home, "PATH=" + filepath.Join(w.dir, "bin") + ":" + os.Getenv("PATH")}, c.Env...)
		if _, err := os.Stat(cmd.Dir); err != nil {
			return fault.New(fault.NotFound, "run command", cmd.Dir, err)
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		_ = cmd.Wait()
		p = ended{exit: engine.Exit{Code: cmd.ProcessState.ExitCode()}}
		return nil
	})
	return p, err
}

// ended is a command that has ended.
type ended struct {
	engine.Process
	exit engine.Exit
}

func (p ended) Wait() (engine.Exit, error) { return p.exit, nil }

func (w *world) writeFile(f engine.File, what engine.FileWrite) (done engine.FileWritten, err error) {
	err = w.touch("write", func() error {
		root, err := os.OpenRoot(f.Root)
		if err != nil {
			return err
		}
		defer root.Close()
		if err := root.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			return fault.New(fault.InvalidArgs, "write", f.Path, err)
		}
		done.SHA256 = sum(what.Content)
		return root.WriteFile(f.Path, what.Content, fs.FileMode(what.Mode))
	})
	return done, err
}

func (w *world) readFile(f engine.File, part engine.FilePart, to io.Writer) (read engine.FileRead, err error) {
	err = w.touch("digest", func() error {
		text, err := os.ReadFile(filepath.Join(f.Root, f.Path))
		if err != nil || uint64(len(text)) > part.Limit {
			return fault.New(fault.NotFound, "read", f.Path, err)
		}
		read.SHA256 = sum(text)
		_, err = to.Write(text)
		return err
	})
	return read, err
}

// System is install.Options.Packages. It does not find packages named "no-…".
func (w *world) System(_ context.Context, c *tools.Call, names []string) (tools.Installed, error) {
	return tools.Installed{Manager: packages.APK}, w.touch("packages", func() error {
		path := filepath.Join(c.Home, "../apk")
		text, _ := os.ReadFile(path)
		for _, name := range names {
			if strings.HasPrefix(name, "no-") {
				return &tools.Failure{Kind: fault.Execution, Message: "no such package: " + name}
			}
			text = append(text, name+"\n"...)
		}
		return os.WriteFile(path, text, 0o644)
	})
}

func (w *world) Has(_ context.Context, _ tools.Agent, _ config.PluginID, name config.SecretName) (has bool, err error) {
	err = w.touch("has", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		has = !w.missing[name]
		return nil
	})
	return has, err
}

// Ask fails as if a person had refused.
func (w *world) Ask(_ context.Context, _ tools.Agent, _ config.PluginID, name config.SecretName, _ string) error {
	return w.touch("ask", func() error {
		return fault.Newf(fault.UserDenied, "ask for", string(name), "it was cancelled")
	})
}

func (w *world) Forget(context.Context, tools.Agent, config.PluginID) error {
	return w.touch("forget", func() error { return nil })
}

func (w *world) Command(_ context.Context, _ tools.Agent, plugin config.PluginID, r plugins.Recipe, setup bool, cmd *engine.Command) error {
	cmd.Env = append(cmd.Env, fmt.Sprintf("MAY=%s %v", plugin, setup))
	if len(r.Secrets) == 0 {
		return nil
	}
	return w.touch("lend", func() error { return nil })
}

func (w *world) Begin(a tools.Agent, plugin config.PluginID, _ plugins.Recipe) {
	w.live(a.ID, plugin, true)
}

func (w *world) End(_ context.Context, a config.AgentID, plugin config.PluginID) error {
	if err := w.touch("end", func() error { w.live(a, plugin, false); return nil }); err != nil {
		return err
	}
	return w.touch("ended", func() error { return nil })
}

func (w *world) live(a config.AgentID, plugin config.PluginID, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.alive[string(a)+string(plugin)] = is; !is {
		delete(w.alive, string(a)+string(plugin))
	}
}

// runs reports whether any daemon runs.
func (w *world) runs() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.alive) > 0
}

// tree returns the contents of the folder of an agent's plugins.
func (w *world) tree(a tools.Agent) string {
	w.t.Helper()
	files := map[string]string{}
	root := filepath.Join(a.Home, "plugins")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		switch {
		case d.IsDir():
			files[rel] = "folder"
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			files[rel] = "-> " + to
			return err
		default:
			text, err := os.ReadFile(path)
			files[rel] = string(text)
			return err
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "%s: %s\n", name, files[name])
	}
	return b.String()
}

// listed returns the names of an agent's tools.
func listed(r *tools.Registry, a tools.Agent) string {
	var names []string
	for _, t := range r.List(a, tools.Full) {
		names = append(names, string(t.Name))
	}
	return strings.Join(names, " ")
}

// call returns the envelope of a call.
func call(t *testing.T, r *tools.Registry, a tools.Agent, name string, arguments map[string]any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	var e map[string]any
	if err := json.Unmarshal([]byte(r.Call(t.Context(), tools.Call{Agent: a}, name, raw).Text()), &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// recipe returns a recipe with most features.
func recipe(version string) plugins.Recipe {
	parsed, err := plugins.Parse([]byte(fmt.Sprintf(`{
		"name": "Data Tools", "description": "Looks at data", "version": %q, "dependencies": ["jq"],
		"setup": "echo set up %s >> made; test -f helper.sh",
		"files": {"helper.sh": "#!/bin/sh\necho version %s: \"$@\"\n", "only-%s/data.txt": "%s\n"},
		"tools": [{"id": "look", "description": "Looks", "run": "./helper.sh \"$PARAM_FILE\" \"$PARAM_COUNT\"",
			"parameters": {"file": {"type": "string"}, "count": {"type": "integer", "default": "7", "enum": ["7", "8"]}}}],
		"secrets": ["API_KEY"]
	}`, version, version, version, version, version)))
	if err != nil {
		panic(err)
	}
	return parsed
}

const dataTools config.PluginID = "data-tools"
