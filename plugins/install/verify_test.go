package install_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/tools"
)

// Damage is found, and repaired as far as is asked.
func TestVerify(t *testing.T) {
	in := func(a tools.Agent, parts ...string) string {
		return filepath.Join(append([]string{a.Home, "plugins", "data-tools"}, parts...)...)
	}
	for _, tc := range []struct {
		name     string
		harm     func(a tools.Agent) error
		problem  string // "" is none
		repaired bool   // by install.Missing
		setUps   int    // how often the setup has run in the end
	}{
		{"nothing", func(tools.Agent) error { return nil }, "", false, 1},
		{"a file is gone", func(a tools.Agent) error { return os.Remove(in(a, "helper.sh")) }, "gone: helper.sh", true, 2},
		{"a folder of it is gone", func(a tools.Agent) error { return os.RemoveAll(in(a, "only-1")) }, "gone: only-1/data.txt", true, 2},
		{"all is gone", func(a tools.Agent) error { return os.RemoveAll(in(a)) }, "its folder is gone", true, 1},
		{"a file was changed", func(a tools.Agent) error { return os.WriteFile(in(a, "helper.sh"), []byte("mine"), 0o755) }, "changed: helper.sh", false, 2},
		{"a package is gone", func(a tools.Agent) error { return os.Remove(filepath.Join(a.Home, "../apk")) }, "the package jq is not installed", true, 2},
		{"the agent was reset", func(a tools.Agent) error { return os.Remove(layer(a)) }, "the agent was reset", true, 2},
		{"a folder is in its place", func(a tools.Agent) error {
			return errors.Join(os.Remove(in(a, "helper.sh")), os.MkdirAll(in(a, "helper.sh", "deep"), 0o755))
		}, "gone: helper.sh", true, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			a := w.agent("alice")
			i, registry := w.open(a)
			if _, err := i.Install(t.Context(), a, recipe("1"), install.How{}); err != nil {
				t.Fatal(err)
			}
			if err := tc.harm(a); err != nil {
				t.Fatal(err)
			}
			harmed := w.tree(a)
			look := func(repair install.Repair) install.Report {
				t.Helper()
				reports, err := i.Verify(t.Context(), a, repair, "a test")
				if err != nil || len(reports) != 1 {
					t.Fatalf("%v %v", reports, err)
				}
				return reports[0]
			}
			if r := look(install.Nothing); !strings.Contains(strings.Join(r.Problems, "; "), tc.problem) || len(r.Problems) > 0 != (tc.problem != "") || r.Repaired || w.tree(a) != harmed {
				t.Errorf("Nothing: %+v", r)
			}
			if r := look(install.Missing); r.Repaired != tc.repaired || r.Err != nil {
				t.Errorf("Missing: %+v", r)
			}
			if r := look(install.All); !r.Sound() {
				t.Errorf("All: %+v", r)
			}
			if r := look(install.Nothing); len(r.Problems) > 0 {
				t.Errorf("in the end: %+v", r)
			}
			if made, err := os.ReadFile(in(a, "made")); err != nil || strings.Count(string(made), "set up") != tc.setUps {
				t.Errorf("%q %v", made, err)
			}
			if e := call(t, registry, a, "data-tools_look", map[string]any{"file": "x"}); e["ok"] != true {
				t.Errorf("%v", e)
			}
		})
	}
}

// Files that the agent has changed survive a repair, unless it is one of all.
func TestChangesStay(t *testing.T) {
	w := newWorld(t)
	a := w.agent("alice")
	i, _ := w.open(a)
	if _, err := i.Install(t.Context(), a, recipe("1"), install.How{}); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(a.Home, "plugins", "data-tools")
	w.write(filepath.Join(folder, "helper.sh"), "#!/bin/sh\necho mine\n", 0o755)
	if err := errors.Join(os.RemoveAll(filepath.Join(folder, "only-1")), os.Remove(layer(a))); err != nil {
		t.Fatal(err)
	}
	verify := func(repair install.Repair) install.Report {
		t.Helper()
		reports, err := i.Verify(t.Context(), a, repair, "a test")
		if err != nil || len(reports) != 1 {
			t.Fatalf("%v %v", reports, err)
		}
		return reports[0]
	}
	if r := verify(install.Missing); r.Repaired || r.Err != nil {
		t.Errorf("%+v", r)
	}
	if tree := w.tree(a); !strings.Contains(tree, "echo mine") || !strings.Contains(tree, "only-1/data.txt: 1\n") || !strings.Contains(tree, "set up 1\nset up 1\n") || strings.Contains(tree, ".data-tools") {
		t.Errorf("files\n%s", tree)
	}
	if r := verify(install.Nothing); !slices.Equal(r.Problems, []string{"changed: helper.sh"}) {
		t.Errorf("%+v", r)
	}
	if r := verify(install.All); !r.Repaired || strings.Contains(w.tree(a), "mine") {
		t.Errorf("%+v, files\n%s", r, w.tree(a))
	}
}

// A failed repair is reported and keeps the tools; the next one may succeed.
func TestFailedRepair(t *testing.T) {
	w := newWorld(t)
	a := w.agent("alice")
	i, registry := w.open(a)
	if _, err := i.Install(t.Context(), a, recipe("1"), install.How{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(layer(a)); err != nil {
		t.Fatal(err)
	}
	w.write(filepath.Join(a.Home, "../apk"), "", 0o644)
	w.fail = func(what string) error {
		if what == "packages" {
			return fmt.Errorf("no network")
		}
		return nil
	}
	reports, err := i.Verify(t.Context(), a, install.Missing, "a test")
	if err != nil || len(reports) != 1 || reports[0].Sound() || !strings.Contains(reports[0].Err.Error(), "no network") {
		t.Fatalf("%+v %v", reports, err)
	}
	r, _ := i.Find(a.ID, dataTools)
	if r.Status != install.Ready || r.Failure == nil || r.Failure.Step != install.Dependencies || listed(registry, a) != "data-tools_look" || !slices.Contains(w.happened, install.Damaged) {
		t.Errorf("%+v %+v %v", r, r.Failure, w.happened)
	}
	w.fail = nil
	if reports, err := i.Verify(t.Context(), a, install.Missing, "a test"); err != nil || !reports[0].Repaired {
		t.Errorf("%+v %v", reports, err)
	}
	if r, _ := i.Find(a.ID, dataTools); r.Failure != nil {
		t.Errorf("%+v", r.Failure)
	}
}

// The first call after a boot or a reset waits for the verification, later ones do not verify again. A call
// restores a folder that has disappeared.
func TestCallsAfterBoot(t *testing.T) {
	w := newWorld(t)
	a := w.agent("alice")
	i, _ := w.open(a)
	if _, err := i.Install(t.Context(), a, recipe("1"), install.How{}); err != nil {
		t.Fatal(err)
	}
	i, registry := w.open(a) // before its guest runs
	w.mu.Lock()
	w.boot = ""
	w.mu.Unlock()
	folder := filepath.Join(a.Home, "plugins", "data-tools")
	works := func(when string) {
		t.Helper()
		if e := call(t, registry, a, "data-tools_look", map[string]any{"file": "x"}); e["ok"] != true {
			t.Errorf("%s: %v", when, e)
		}
	}
	harm := func(path string) {
		t.Helper()
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	harm(filepath.Join(folder, "helper.sh"))
	works("the guest has started")
	w.mu.Lock()
	before := w.commands
	w.mu.Unlock()
	works("again")
	w.mu.Lock()
	if n := w.commands - before; n != 1 {
		t.Errorf("a call is %d commands", n)
	}
	w.mu.Unlock()
	harm(layer(a))
	harm(filepath.Join(folder, "helper.sh"))
	i.Reset(a.ID)
	works("the agent was reset")
	harm(folder)
	works("the folder is gone")
}

// A daemon starts after the verification, unless the plugin is being disabled.
func TestDisabledWhileLookedAt(t *testing.T) {
	w := newWorld(t)
	a := w.agent("alice")
	i, _ := w.open(a)
	if _, err := i.Install(t.Context(), a, recipe("1"), install.How{}); err != nil {
		t.Fatal(err)
	}
	w.live(a.ID, dataTools, false) // its guest has ended
	if err := i.Ready(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	timetest.Eventually(t, "it has begun", w.runs)
	ended, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	w.fail = func(what string) error {
		if what == "ended" {
			close(ended)
			<-goOn
		}
		return nil
	}
	go func() {
		_, err := i.Enable(t.Context(), a, dataTools, false, "a test")
		done <- err
	}()
	<-ended
	i.Reset(a.ID)
	if err := i.Ready(t.Context(), a); err != nil { // does not wait for the change
		t.Error(err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	i.Close()
	if w.runs() {
		t.Error("a disabled plugin runs")
	}
}

// Installations of a plugin run one after the other, and agents share nothing.
func TestTogether(t *testing.T) {
	w := newWorld(t)
	agents := []tools.Agent{w.agent("alice"), w.agent("bob")}
	i, registry := w.open(agents...)
	var work sync.WaitGroup
	for _, a := range agents {
		for _, version := range []string{"1", "2", "3"} {
			work.Go(func() {
				if _, err := i.Install(t.Context(), a, recipe(version), install.How{}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	work.Wait()
	for _, a := range agents {
		r, _ := i.Find(a.ID, dataTools)
		if tree := w.tree(a); r.Status != install.Ready || !strings.Contains(tree, "only-"+r.Plugin.Version+"/data.txt") || strings.Count(tree, "data.txt") != 1 || strings.Contains(tree, ".data-tools") {
			t.Errorf("%+v and\n%s", r, tree)
		}
	}
	if err := i.Uninstall(t.Context(), agents[0], dataTools, "a test"); err != nil || listed(registry, agents[1]) != "data-tools_look" {
		t.Errorf("%v, bob has %q", err, listed(registry, agents[1]))
	}
}

// An unreadable record is kept and does not affect others. An unreadable file is an error and is not
// overwritten.
func TestBrokenRecords(t *testing.T) {
	w := newWorld(t)
	a := w.agent("alice")
	i, _ := w.open(a)
	if _, err := i.Install(t.Context(), a, recipe("1"), install.How{}); err != nil {
		t.Fatal(err)
	}
	path := w.home.InstalledPlugins(a.ID)
	read := func() (list []json.RawMessage) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(text, &list) != nil {
			t.Fatalf("%v %s", err, text)
		}
		return list
	}
	const strange = `{"plugin":{"name":"../../etc","later":1}}`
	text, err := json.Marshal(append(read(), json.RawMessage(strange)))
	if err != nil {
		t.Fatal(err)
	}
	w.write(path, string(text), 0o600)
	i, registry := w.open(a)
	if _, err := i.Install(t.Context(), a, recipe("2"), install.How{}); err != nil || listed(registry, a) != "data-tools_look" {
		t.Errorf("%v %q", err, listed(registry, a))
	}
	if list := read(); len(list) != 2 || strings.Join(strings.Fields(string(list[1])), "") != strange {
		t.Errorf("%s", list)
	}

	w.write(path, `[{"plugin":`, 0o600)
	i, _ = w.open(a)
	if _, err := i.List(a.ID); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if _, err := i.Install(t.Context(), a, recipe("1"), install.How{}); err == nil {
		t.Error("it is installed")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != `[{"plugin":` {
		t.Errorf("%s %v", text, err)
	}
}
