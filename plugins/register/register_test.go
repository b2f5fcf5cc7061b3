package register

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/plugins/library"
	"osaurus-sandbox/tools"
)

// A plugin is the same whether the tool, a program in the room or the API registers it, except for the metadata.
func TestWaysIn(t *testing.T) {
	const words, rest = `, "lib/words.txt": "hello\n"`, `"description": "Greets.", "version": "1.0.0", "dependencies": ["jq"], "setup": "pip install --user requests",
  "tools": [{"id": "greet", "description": "Greets somebody.", "parameters": {"who": {"type": "string"}}, "run": "sh greet.sh \"$PARAM_WHO\""}],
  "secrets": ["TOKEN"], "permissions": {"network": "api.example.com", "inference": true}, "events": {"emit": ["greeter.done"]}, "unknown": {"kept": true}}`
	recipe := func(files string) string {
		return `{"name": "Greeter", "files": {"greet.sh": "echo hello $1\n"` + files + `}, ` + rest
	}
	written := func(w *world) tools.Agent {
		w.write("plugins/greeter/plugin.json", recipe(""))
		w.write("plugins/greeter/greet.sh", "echo plugin.json has another\n")
		w.write("plugins/greeter/lib/words.txt", "hello\n")
		w.write("plugins/greeter/.git/config", "hidden")
		return w.homed(alice)
	}
	var kept string
	for via, register := range map[Via]func(w *world) error{
		Tool: func(w *world) error {
			e := w.call(written(w), "greeter")
			if out, ok := e.Result.(toolOut); ok {
				return want(fmt.Sprint(out.Status, out.PluginID, out.PluginName, out.Tools))
			}
			return errors.New(e.Text())
		},
		Bridge: func(w *world) error {
			made, err := w.create(w.homed(alice), recipe(words))
			return errors.Join(err, want(fmt.Sprint(made.Status, made.ID, made.Name, made.Tools)))
		},
		API: func(w *world) error { // and the command line
			r, err := w.Pack(w.t.Context(), written(w), "greeter")
			if err != nil {
				return err
			}
			made, err := w.Register(w.t.Context(), w.homed(alice), r, API, nil)
			return errors.Join(err, want(fmt.Sprint(made.Status, made.ID, made.Name, made.Tools)))
		},
	} {
		t.Run(string(via), func(t *testing.T) {
			w := newWorld(t)
			w.given = []config.SecretName{"TOKEN"}
			if err := register(w); err != nil || len(w.installed) != 1 {
				t.Fatalf("%v, installed %q", err, w.installed)
			}
			text := w.kept("greeter")
			if !strings.Contains(text, fmt.Sprintf(`"created_via": %q`, via)) || !strings.Contains(text, `"created_by": "agent"`) || !strings.HasSuffix(w.installed[0], unstamped.ReplaceAllString(text, "")) {
				t.Errorf("kept\n%s\ninstalled\n%s", text, w.installed[0])
			}
			if text = strings.ReplaceAll(text, string(via), "VIA"); kept != "" && text != kept {
				t.Errorf("kept\n%s\nand before\n%s", text, kept)
			}
			kept = text
			if n := w.notices; len(n) != 1 || n[0].Via != via || n[0].Remove() != "osaurus-sandbox plugin uninstall greeter alice" {
				t.Errorf("notices: %+v", n)
			}
		})
	}
}

// unstamped matches the time that only the library adds.
var unstamped = regexp.MustCompile(`  "modifiedAt": .*\n`)

func want(answer string) error {
	if answer != "installedgreeterGreeter[{greeter_greet Greets somebody.}]" {
		return errors.New(answer)
	}
	return nil
}

// Refused recipes leave nothing in the library.
func TestRefused(t *testing.T) {
	simple := func(more string) string {
		return `{"name": "Simple", "description": "Does.", "tools": [{"id": "do", "description": "Does.", "run": "true"}]` + more + `}`
	}
	for name, tc := range map[string]struct {
		recipe  string
		agent   config.AgentSettings
		stopped bool
		kind    fault.Kind
		says    string
	}{
		"no JSON":                   {recipe: `{"name":`, kind: fault.InvalidArgs},
		"no description":            {recipe: `{"name": "Simple"}`, kind: fault.InvalidArgs, says: "$.description"},
		"a path that leads out":     {recipe: simple(`, "files": {"../x": ""}`), kind: fault.InvalidArgs, says: "../x"},
		"a foreign host in setup":   {recipe: simple(`, "setup": "curl https://evil.example"`), kind: fault.InvalidArgs, says: "$.setup: it names the host evil.example"},
		"a host behind the allowed": {recipe: simple(`, "setup": "curl https://pypi.org:x@evil.example/"`), kind: fault.InvalidArgs, says: "evil.example"},
		"a foreign host in run": {
			recipe: `{"name": "Simple", "description": "Does.", "tools": [{"id": "do", "description": "Does.", "run": "curl http://evil.example"}]}`,
			kind:   fault.InvalidArgs, says: "$.tools[0].run",
		},
		"a secret without a value": {recipe: simple(`, "secrets": ["TOKEN"]`), kind: fault.InvalidArgs, says: "no value is set for TOKEN"},
		"no guest":                 {recipe: simple(""), stopped: true, kind: fault.Unavailable, says: "not running"},
		"an agent that may not":    {recipe: simple(""), agent: config.AgentSettings{AutonomousExec: true}, kind: fault.Rejected, says: "autonomousExec.pluginCreate"},
		"an agent that may nothing": {
			recipe: simple(""), agent: config.AgentSettings{PluginCreate: true}, kind: fault.Rejected, says: "autonomousExec.enabled",
		},
		"too large": {recipe: `"` + strings.Repeat("x", plugins.MaxRecipe) + `"`, kind: fault.InvalidArgs, says: "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.stopped = tc.stopped
			a := w.homed(alice)
			if !reflect.DeepEqual(tc.agent, config.AgentSettings{}) {
				a.Settings = tc.agent
			}
			_, err := w.create(a, tc.recipe)
			if err == nil || fault.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want %s with %q", err, tc.kind, tc.says)
			}
			list, broken, failed := w.library.List()
			if len(list)+len(broken)+len(w.installed)+len(w.notices) != 0 || failed != nil {
				t.Errorf("left: %v %v %v %v, %v", list, broken, w.installed, w.notices, failed)
			}
		})
	}
}

// An agent's plugin gets only permissions that agents may give.
func TestN20Restricted(t *testing.T) {
	for said, want := range map[plugins.Network]struct {
		network plugins.Network
		caveats int
	}{
		"": {"none", 0}, "none": {"none", 0}, "outbound": {"none", 1}, "api.example.com": {"api.example.com", 0}, "a.example.com,b.example.com": {"a.example.com,b.example.com", 0},
		"*": {"none", 1}, "a.example.com,*.example.com": {"none", 1}, "localhost": {"none", 1},
		"*.com": {"none", 1}, "10.0.0.1": {"none", 1}, "outbound,a.example.com": {"none", 1}, " ": {"none", 1}, "a.example.com, b.example.com": {"none", 1},
	} {
		r := plugins.Recipe{Metadata: map[string]any{createdBy: "a person", "theirs": "kept"}, Permissions: plugins.Permissions{Network: said, Inference: true}}
		got, caveats := restrict(r, alice, Bridge)
		caveats = append(caveats, got.Caveats()...)
		if got.Permissions.Network != want.network || got.Permissions.Inference || len(caveats) != want.caveats+1 {
			t.Errorf("%q became %q, inference %v, with %q", said, got.Permissions.Network, got.Permissions.Inference, caveats)
		}
		if m := got.Metadata; m[createdBy] != byAgent || m[createdVia] != "host_bridge" || m[createdFor] != string(alice.ID) || m["theirs"] != "kept" {
			t.Errorf("stamped %v", m)
		}
		if got.Permissions.CommandNetwork() == engine.NetworkOfRoom {
			t.Errorf("%q has the network of its agent", said)
		}
		if got.Permissions.Network == "none" && want.caveats == 1 && !strings.Contains(caveats[0], "unless it lists exact hosts: \""+string(said)+"\" became") {
			t.Errorf("of %q it is told %q", said, caveats)
		}
		if r.Metadata[createdBy] != "a person" {
			t.Error("the recipe that was given was changed")
		}
	}
}

// Folders that cannot be packed.
func TestPack(t *testing.T) {
	const manifest = `{"name": "My Tools", "description": "Mine.", "tools": [{"id": "do", "description": "Does.", "run": "true"}]}`
	for name, tc := range map[string]struct {
		lay  func(w *world, dir string)
		id   string
		kind fault.Kind
		says []string
	}{
		"no folder":      {func(*world, string) {}, "my-tools", fault.Execution, []string{"~/plugins/my-tools/plugin.json"}},
		"no recipe":      {func(w *world, _ string) { w.write("plugins/my-tools/plugin.json", `{"name": 1}`) }, "my-tools", fault.InvalidArgs, []string{"$.name"}},
		"another's name": {func(w *world, _ string) { w.write("plugins/tools/plugin.json", manifest) }, "tools", fault.InvalidArgs, []string{`"My Tools"`, "plugins/my-tools"}},
		"a path for a name": {func(w *world, dir string) {
			w.write("secret/plugin.json", manifest)
		}, "../secret", fault.InvalidArgs, nil},
		"binaries": {func(w *world, _ string) {
			w.write("plugins/my-tools/plugin.json", manifest)
			w.write("plugins/my-tools/a.bin", "\xff\xfe")
			w.write("plugins/my-tools/bin/b.o", "a\x00b")
			w.write("plugins/my-tools/ok.txt", "ok")
		}, "my-tools", fault.InvalidArgs, []string{"a.bin"}},
		"a link": {func(w *world, dir string) {
			w.write("plugins/my-tools/plugin.json", manifest)
			if err := os.Symlink("/etc/passwd", filepath.Join(dir, "passwd")); err != nil {
				w.t.Fatal(err)
			}
		}, "my-tools", fault.InvalidArgs, []string{"passwd", "link"}},
		"a big file": {func(w *world, _ string) {
			w.write("plugins/my-tools/plugin.json", manifest)
			w.write("plugins/my-tools/big.txt", strings.Repeat("x", plugins.MaxFile+1))
		}, "my-tools", fault.InvalidArgs, []string{"big.txt"}},
		"too many": {func(w *world, _ string) {
			w.write("plugins/my-tools/plugin.json", manifest)
			for i := range plugins.MaxFiles + 1 {
				w.write(fmt.Sprintf("plugins/my-tools/%d.txt", i), "")
			}
		}, "my-tools", fault.InvalidArgs, []string{"more than"}},
		"too deep": {func(w *world, _ string) {
			w.write("plugins/my-tools/plugin.json", manifest)
			w.write("plugins/my-tools/"+strings.Repeat("d/", plugins.MaxPathDepth)+"x", "")
		}, "my-tools", fault.InvalidArgs, []string{"deep"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			dir := filepath.Join(w.home, "plugins", "my-tools")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			tc.lay(w, dir)
			e := w.call(w.homed(alice), tc.id)
			if e.OK() || e.Failure.Kind != tc.kind || slices.ContainsFunc(tc.says, func(s string) bool { return !strings.Contains(e.Failure.Message, s) }) {
				t.Errorf("%s, want %s with %q", e.Text(), tc.kind, tc.says)
			}
			if len(w.installed) != 0 {
				t.Errorf("installed was %q", w.installed)
			}
		})
	}
}

// After a failed installation the library is as before.
func TestInstallationFails(t *testing.T) {
	recipe := func(version string) string {
		return `{"name": "Simple", "description": "Does.", "version": "` + version + `", "tools": [{"id": "do", "description": "Does.", "run": "true"}]}`
	}
	w := newWorld(t)
	a := w.homed(alice)
	fails := fault.Newf(fault.NotFound, "set up plugin", "simple", "no such program")
	fail := func(version string) {
		t.Helper()
		w.fails = fails
		_, err := w.create(a, recipe(version))
		w.fails = nil
		if fault.KindOf(err) != fault.Execution || !strings.Contains(err.Error(), "no such program") {
			t.Errorf("%v", err)
		}
	}
	fail("1")
	if got := w.kept("simple"); got != "" {
		t.Errorf("left: %s", got)
	}
	if _, err := w.create(a, recipe("2")); err != nil {
		t.Fatal(err)
	}
	before := w.kept("simple")
	for _, version := range []string{"3", "2"} { // the second is what is there
		fail(version)
		if got := w.kept("simple"); got != before {
			t.Errorf("after %s it is %s", version, got)
		}
	}
	if len(w.notices) != 1 {
		t.Errorf("notices: %v", w.notices)
	}
	w.fails = fault.Newf(fault.Unavailable, "start", "", "the machine ended")
	if _, err := w.create(a, recipe("4")); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("without a machine: %v", err)
	}
}

// An installation is limited in time, and its error names the step.
func TestInstallationTakesTooLong(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		const recipe = `{"name": "Simple", "description": "Does.", "tools": [{"id": "do", "description": "Does.", "run": "true"}]}`
		w := newWorld(t)
		w.Install = func(ctx context.Context, _ tools.Agent, _ plugins.Recipe, _ Via, _ func(string)) error {
			<-ctx.Done()
			time.Sleep(install.UndoTime)
			return fmt.Errorf("taken back from setup: %w", ctx.Err())
		}
		if _, err := w.create(w.homed(alice), recipe); fault.KindOf(err) != fault.Timeout || !strings.Contains(err.Error(), "not finish within 11m0s: taken back from setup") || fault.AdviceOf(err) == "" {
			t.Errorf("%v", err)
		}
		w.write("plugins/simple/plugin.json", recipe)
		if e := w.call(w.homed(alice), "simple"); e.OK() || e.Failure.Kind != fault.Timeout || !strings.Contains(e.Failure.Message, "not finish within 11m0s: taken back from setup") {
			t.Errorf("the tool answers %s", e.Text())
		}
		if got := w.kept("simple"); got != "" {
			t.Errorf("left: %s", got)
		}
	})
}

// An agent replaces only its own plugins.
func TestReplacing(t *testing.T) {
	const recipe = `{"name": "Simple", "description": "Does.", "tools": [{"id": "do", "description": "Does.", "run": "true"}]}`
	other := strings.Replace(recipe, "Does", "Does more", 1)
	w := newWorld(t)
	if _, err := w.create(w.homed(alice), recipe); err != nil {
		t.Fatal(err)
	}
	if _, err := w.create(w.homed(alice), other); err != nil {
		t.Errorf("its own: %v", err)
	}
	before := w.kept("simple")
	if _, err := w.create(w.homed(bob), recipe); fault.KindOf(err) != fault.Rejected || w.kept("simple") != before {
		t.Errorf("another agent's: %v", err)
	}
	theirs, err := plugins.Parse([]byte(strings.ReplaceAll(recipe, "Simple", "Theirs")))
	if err != nil {
		t.Fatal(err)
	}
	theirs.Metadata = map[string]any{"by": "a person"}
	if _, err := w.library.Save(theirs, library.Create); err != nil {
		t.Fatal(err)
	}
	if _, err := w.create(w.homed(alice), strings.ReplaceAll(recipe, "Simple", "Theirs")); fault.KindOf(err) != fault.Rejected {
		t.Errorf("a person's: %v", err)
	}
	// An agent cannot forge the metadata.
	forged := strings.Replace(recipe, `"tools"`, `"metadata": {"created_for": "`+string(bob.ID)+`"}, "tools"`, 1)
	if _, err := w.create(w.homed(alice), forged); err != nil || strings.Contains(w.kept("simple"), string(bob.ID)) {
		t.Errorf("%v: %s", err, w.kept("simple"))
	}
}

// Registrations are limited per agent and minute.
func TestLimit(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		w := newWorld(t)
		recipe := func(i int) string {
			return fmt.Sprintf(`{"name": "Simple %d", "description": "Does.", "tools": [{"id": "do", "description": "Does.", "run": "true"}]}`, i)
		}
		for i := range perMinute {
			if _, err := w.create(w.homed(alice), recipe(i)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		_, err := w.create(w.homed(alice), recipe(perMinute))
		limited, ok := errors.AsType[*bridge.Limited](err)
		if !ok || fault.KindOf(err) != fault.Rejected || limited.After != time.Minute-perMinute*time.Second {
			t.Fatalf("%v", err)
		}
		if _, err := w.create(w.homed(bob), recipe(perMinute+1)); err != nil {
			t.Error(err)
		}
		w.write("plugins/last/plugin.json", `{"name": "Last", "description": "Does.", "tools": [{"id": "do", "description": "Does.", "run": "true"}]}`)
		if e := w.call(w.homed(alice), "last"); e.OK() || !strings.Contains(e.Text(), `"retryable":true`) {
			t.Errorf("the tool answers %s", e.Text())
		}
		time.Sleep(limited.After)
		if e := w.call(w.homed(alice), "last"); !e.OK() {
			t.Errorf("%s", e.Text())
		}
	})
}
