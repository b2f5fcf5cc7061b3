package register

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/library"
	"osaurus-sandbox/tools"
)

var (
	alice = tools.Agent{
		ID: "0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E", Name: "alice", User: "agent-alice", Settings: config.AgentSettings{AutonomousExec: true, PluginCreate: true},
	}
	bob = tools.Agent{ID: "1B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E", Name: "bob", User: "agent-bob", Settings: alice.Settings}
)

// world is a registrar with a real library and a folder of this host as home.
type world struct {
	*Registrar
	t         *testing.T
	home      string // of all agents
	library   *library.Library
	stopped   bool
	given     []config.SecretName
	fails     error // the error of installations
	installed []string
	notices   []Notice
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, home: filepath.Join(dir, "alice")}
	at := time.Unix(1_700_000_000, 0)
	var err error
	if w.library, err = library.Open(library.Options{Home: config.Home(filepath.Join(dir, "home")), Now: func() time.Time { return at }}); err != nil {
		t.Fatal(err)
	}
	w.Registrar = New(Options{
		Room: func(tools.Agent) engine.Room { return disk{} }, Library: w.library, HasSecret: w.hasSecret, Running: func() bool { return !w.stopped },
		Mirrors: func() []string { return []string{"mirror.example.org"} },
		Install: func(_ context.Context, a tools.Agent, r plugins.Recipe, via Via, tell func(string)) error {
			text, err := r.Encode()
			w.installed = append(w.installed, fmt.Sprintf("%s %s %s", a.Name, via, text))
			return errors.Join(err, w.fails)
		},
		Note: func(n Notice) { w.notices = append(w.notices, n) },
	})
	return w
}

func (w *world) hasSecret(_ context.Context, _ tools.Agent, _ config.PluginID, name config.SecretName) (bool, error) {
	return slices.Contains(w.given, name), nil
}

// homed gives an agent the test's home.
func (w *world) homed(a tools.Agent) tools.Agent {
	a.Home = w.home
	return a
}

// write writes a file of an agent.
func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.home, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		w.t.Fatal(err)
	}
}

// call calls the tool.
func (w *world) call(a tools.Agent, id string) tools.Envelope {
	w.t.Helper()
	arguments, err := json.Marshal(map[string]string{"plugin_id": id})
	if err != nil {
		w.t.Fatal(err)
	}
	return tools.NewRegistry(nil, w.Tool()).Call(w.t.Context(), tools.Call{Agent: a}, "sandbox_plugin_register", arguments)
}

// create registers a recipe as a program of the agent does.
func (w *world) create(a tools.Agent, recipe string) (bridge.Created, error) {
	w.Agent = func(config.AgentID) (tools.Agent, error) { return a, nil }
	return w.Create(w.t.Context(), bridge.Caller{Agent: a.ID, Name: a.Name, User: a.User}, json.RawMessage(recipe))
}

// kept returns the text of a plugin in the library, or "".
func (w *world) kept(id config.PluginID) string {
	text, err := w.library.Text(id, 0)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		w.t.Fatal(err)
	}
	return string(text)
}

// disk is a room with the files of this host.
type disk struct{ engine.Room }

func (disk) ListFolder(_ context.Context, f engine.File, limit int) (list []engine.FolderEntry, more bool, err error) {
	entries, err := os.ReadDir(filepath.Join(f.Root, f.Path))
	if err != nil {
		return nil, false, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, false, err
		}
		kind := engine.RegularFile
		switch {
		case e.IsDir():
			kind = engine.Folder
		case e.Type()&os.ModeSymlink != 0:
			kind = engine.Link
		case !e.Type().IsRegular():
			kind = engine.OtherFile
		}
		list = append(list, engine.FolderEntry{Name: e.Name(), FileInfo: engine.FileInfo{Kind: kind, Size: uint64(info.Size())}})
	}
	return list[:min(len(list), limit)], len(list) > limit, nil
}

func (disk) ReadFile(_ context.Context, f engine.File, part engine.FilePart, to io.Writer) (engine.FileRead, error) {
	file, err := os.Open(filepath.Join(f.Root, f.Path))
	if err != nil {
		return engine.FileRead{}, err
	}
	defer file.Close()
	_, err = io.Copy(to, io.LimitReader(file, int64(part.Limit)))
	return engine.FileRead{}, err
}
