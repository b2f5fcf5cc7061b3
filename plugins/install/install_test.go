package install_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/install"
)

func sum(text []byte) []byte {
	s := sha256.Sum256(text)
	return s[:]
}

// An installation makes files, tools and a record, and uninstalling removes them.
func TestInstall(t *testing.T) {
	w := newWorld(t)
	alice, bob := w.agent("alice"), w.agent("bob")
	i, registry := w.open(alice, bob)
	var steps []install.Step
	r, err := i.Install(t.Context(), alice, recipe("1"), install.How{Tell: func(p install.Progress) {
		if len(steps) == 0 || steps[len(steps)-1] != p.Step {
			steps = append(steps, p.Step)
		}
		if p.All != 8 || p.Done >= p.All {
			t.Errorf("%+v", p)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(steps, install.Steps()) {
		t.Errorf("the steps are %v", steps)
	}
	hash, _ := recipe("1").Hash()
	if r.Status != install.Ready || r.Hash != hash || r.Agent != alice.ID || !slices.Equal(r.Packages, []string{"jq"}) || r.Doing != nil {
		t.Errorf("%+v", r)
	}
	const want = `data-tools: folder
data-tools/helper.sh: #!/bin/sh
echo version 1: "$@"

data-tools/made: set up 1

data-tools/only-1: folder
data-tools/only-1/data.txt: 1

`
	if got := w.tree(alice); got != want {
		t.Errorf("files\n%s", got)
	}
	if a, b := listed(registry, alice), listed(registry, bob); a != "data-tools_look" || b != "" {
		t.Errorf("alice has %q, bob %q", a, b)
	}
	if e := call(t, registry, alice, "data-tools_look", map[string]any{"file": "a b"}); e["ok"] != true || e["result"].(map[string]any)["stdout"] != "version 1: a b 7\n" {
		t.Errorf("%v", e)
	}

	text, err := os.ReadFile(w.home.InstalledPlugins(alice.ID))
	var file []map[string]any
	if err != nil || json.Unmarshal(text, &file) != nil || len(file) != 1 {
		t.Fatalf("%v %s", err, text)
	}
	if f := file[0]; f["agentId"] != string(alice.ID) || f["status"] != "ready" || f["sourceContentHash"] != string(hash) ||
		f["installedAt"] == nil || f["plugin"].(map[string]any)["name"] != "Data Tools" {
		t.Errorf("%v", f)
	}

	if err := i.Uninstall(t.Context(), alice, dataTools, "a test"); err != nil {
		t.Fatal(err)
	}
	list, err := i.List(alice.ID)
	if got := w.tree(alice); got != "" || len(list) != 0 || err != nil || listed(registry, alice) != "" || len(w.alive) != 0 {
		t.Errorf("left: %s %v %v %q %v", got, list, err, listed(registry, alice), w.alive)
	}
	if want := []install.What{install.Installed, install.Uninstalled}; !slices.Equal(w.happened, want) {
		t.Errorf("events: %v", w.happened)
	}
	if err := i.Uninstall(t.Context(), alice, dataTools, "a test"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("second uninstall: %v", err)
	}
}

// An update removes files that are not in the recipe any more, but not those that the plugin made.
func TestUpdate(t *testing.T) {
	w := newWorld(t)
	alice := w.agent("alice")
	i, registry := w.open(alice)
	for _, version := range []string{"1", "2"} {
		if _, err := i.Install(t.Context(), alice, recipe(version), install.How{}); err != nil {
			t.Fatal(err)
		}
	}
	got := w.tree(alice)
	if !strings.Contains(got, "data-tools/made: set up 1\nset up 2\n") || !strings.Contains(got, "only-2/data.txt") || strings.Contains(got, "only-1/data.txt") || strings.Contains(got, ".data-tools") {
		t.Errorf("files\n%s", got)
	}
	if e := call(t, registry, alice, "data-tools_look", map[string]any{"file": "x", "count": 8}); e["ok"] != true || e["result"].(map[string]any)["stdout"] != "version 2: x 8\n" {
		t.Errorf("%v", e)
	}
}

// After a failed step everything is as before, and the record names the step.
func TestFailures(t *testing.T) {
	for _, tc := range []struct {
		name string
		bad  func(r *plugins.Recipe, w *world)
		step install.Step
		kind fault.Kind
	}{
		{"no guest", func(_ *plugins.Recipe, w *world) {
			w.fail = func(what string) error {
				if what == "start" {
					return fault.New(fault.Unavailable, "start", "", os.ErrDeadlineExceeded)
				}
				return nil
			}
		}, install.Machine, fault.Unavailable},
		{"no such package", func(r *plugins.Recipe, _ *world) { r.Dependencies = []plugins.Dependency{"no-such"} }, install.Dependencies, fault.Execution},
		{"a full disk", func(_ *plugins.Recipe, w *world) {
			w.fail = func(what string) error {
				if what == "write" {
					return fault.New(fault.Rejected, "write", "x", os.ErrPermission)
				}
				return nil
			}
		}, install.Files, fault.Rejected},
		{"a person says no", func(r *plugins.Recipe, w *world) { w.missing["OTHER"] = true; r.Secrets = []config.SecretName{"OTHER"} }, install.Credentials, fault.UserDenied},
		{"its setup fails", func(r *plugins.Recipe, _ *world) { r.Setup = "rm -rf ../data-tools/*; echo because >&2; exit 3" }, install.Setup, fault.Execution},
	} {
		for _, there := range []bool{false, true} {
			t.Run(tc.name+map[bool]string{false: ", anew", true: ", an update"}[there], func(t *testing.T) {
				w := newWorld(t)
				alice := w.agent("alice")
				i, registry := w.open(alice)
				if there {
					if _, err := i.Install(t.Context(), alice, recipe("1"), install.How{}); err != nil {
						t.Fatal(err)
					}
				}
				before, hadTools := w.tree(alice), listed(registry, alice)
				next := recipe("2")
				tc.bad(&next, w)
				_, err := i.Install(t.Context(), alice, next, install.How{})
				if fault.KindOf(err) != tc.kind || !strings.Contains(err.Error(), string(tc.step)) {
					t.Errorf("%v", err)
				}
				if got := w.tree(alice); got != before {
					t.Errorf("files\n%s\nand before\n%s", got, before)
				}
				if got := listed(registry, alice); got != hadTools {
					t.Errorf("tools: %q, before %q", got, hadTools)
				}
				r, ok := i.Find(alice.ID, dataTools)
				if !ok || r.Failure == nil || r.Failure.Step != tc.step || r.Failure.Kind != tc.kind || r.Failure.Version != "2" || r.Doing != nil ||
					(r.Status == install.Ready) != there || there && (r.Plugin.Version != "1" || len(w.alive) != 1) {
					t.Errorf("%+v %+v", r, r.Failure)
				}
				w.fail = nil
				if _, err := i.Install(t.Context(), alice, recipe("3"), install.How{}); err != nil {
					t.Errorf("next installation: %v", err)
				}
				if r, _ := i.Find(alice.ID, dataTools); r.Failure != nil || r.Status != install.Ready {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

// WithoutSecrets installs a plugin whose secrets are missing, or cannot be read.
func TestWithoutSecrets(t *testing.T) {
	w := newWorld(t)
	alice := w.agent("alice")
	i, _ := w.open(alice)
	w.missing["API_KEY"] = true
	r, err := i.Install(t.Context(), alice, recipe("1"), install.How{WithoutSecrets: true})
	if err != nil || !slices.Equal(r.Without, []config.SecretName{"API_KEY"}) {
		t.Errorf("%+v %v", r, err)
	}
	w.missing["API_KEY"] = false
	w.fail = func(what string) error {
		if what == "has" || what == "lend" {
			return errors.New("the store is locked")
		}
		return nil
	}
	if _, err := i.Install(t.Context(), alice, recipe("2"), install.How{}); err == nil {
		t.Error("installed without its secrets")
	}
	if r, err := i.Install(t.Context(), alice, recipe("2"), install.How{WithoutSecrets: true}); err != nil || !slices.Equal(r.Without, []config.SecretName{"API_KEY"}) {
		t.Errorf("%+v %v", r, err)
	}
}

// A disabled plugin has no tools, even after a restart or an update.
func TestDisable(t *testing.T) {
	w := newWorld(t)
	alice := w.agent("alice")
	i, registry := w.open(alice)
	if _, err := i.Install(t.Context(), alice, recipe("1"), install.How{}); err != nil {
		t.Fatal(err)
	}
	if r, err := i.Enable(t.Context(), alice, dataTools, false, "a test"); err != nil || !r.Disabled || listed(registry, alice) != "" || len(w.alive) != 0 {
		t.Errorf("%+v %v %q", r, err, listed(registry, alice))
	}
	if _, err := i.Install(t.Context(), alice, recipe("2"), install.How{}); err != nil || listed(registry, alice) != "" || len(w.alive) != 0 {
		t.Errorf("%v %q", err, listed(registry, alice))
	}
	i, registry = w.open(alice)
	if listed(registry, alice) != "" {
		t.Error("tools after a restart")
	}
	if _, err := i.Enable(t.Context(), alice, dataTools, true, "a test"); err != nil || listed(registry, alice) != "data-tools_look" || len(w.alive) != 1 {
		t.Errorf("%v %q", err, listed(registry, alice))
	}
}

// The plugins of a deleted agent are forgotten, even during an installation.
func TestForget(t *testing.T) {
	w := newWorld(t)
	alice := w.agent("alice")
	i, registry := w.open(alice)
	if _, err := i.Install(t.Context(), alice, recipe("1"), install.How{}); err != nil {
		t.Fatal(err)
	}
	w.fail = func(what string) error {
		if what == "write" { // in the middle of the next
			w.mu.Lock()
			w.gone[alice.ID] = true
			w.mu.Unlock()
			return i.Forget(alice.ID)
		}
		return nil
	}
	if _, err := i.Install(t.Context(), alice, recipe("2"), install.How{}); err == nil {
		t.Error("installed for a deleted agent")
	}
	if _, err := os.Stat(filepath.Dir(filepath.Dir(w.home.InstalledPlugins(alice.ID)))); !os.IsNotExist(err) || listed(registry, alice) != "" {
		t.Errorf("%v %q", err, listed(registry, alice))
	}
}
