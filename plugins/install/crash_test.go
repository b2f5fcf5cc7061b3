package install_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/tools"
)

// After a kill at any contact, the next daemon completes or undoes the change. Before the guest runs,
// the tools match the files.
func TestKilled(t *testing.T) {
	setUp := func(t *testing.T, i *install.Installer, a tools.Agent, version string) {
		t.Helper()
		if _, err := i.Install(t.Context(), a, recipe(version), install.How{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, change := range []struct {
		name    string
		there   string // the installed version, if any
		planted bool   // the folder has a file of the agent
		do      func(i *install.Installer, a tools.Agent) error
	}{
		{"install", "", false, func(i *install.Installer, a tools.Agent) error {
			_, err := i.Install(context.Background(), a, recipe("2"), install.How{})
			return err
		}},
		{"update", "1", true, func(i *install.Installer, a tools.Agent) error {
			_, err := i.Install(context.Background(), a, recipe("2"), install.How{})
			return err
		}},
		{"uninstall", "1", true, func(i *install.Installer, a tools.Agent) error {
			return i.Uninstall(context.Background(), a, dataTools, "a test")
		}},
	} {
		t.Run(change.name, func(t *testing.T) {
			t.Parallel() // it waits for programs
			for at := 1; ; at++ {
				w := newWorld(t)
				a := w.agent("alice")
				i, registry := w.open(a)
				if change.there != "" {
					setUp(t, i, a, change.there)
				}
				if change.planted {
					w.write(a.Home+"/plugins/data-tools/own.txt", "mine\n", 0o644)
				}
				before, hadTools := w.tree(a), listed(registry, a)
				w.killAfter(at - 1)
				err := change.do(i, a)
				if !w.killed() {
					if err != nil || at < 5 {
						t.Fatalf("after %d contacts: %v", at-1, err)
					}
					return
				}
				checkWhole(t, w, a, at, before, hadTools)
			}
		})
	}
}

// checkWhole starts the next daemon and checks that the change is complete or undone.
func checkWhole(t *testing.T, w *world, a tools.Agent, at int, before, hadTools string) {
	t.Helper()
	i, registry := w.open(a)
	early := listed(registry, a)
	if early != hadTools && early != "data-tools_look" && early != "" {
		t.Fatalf("contact %d: tools before the guest runs: %q", at, early)
	}
	r, ok := i.Find(a.ID, dataTools)
	if early == "" && ok && r.Status == install.Ready || early != "" && !ok {
		t.Fatalf("contact %d: tools %q of %+v", at, early, r)
	}
	reports, err := i.Verify(t.Context(), a, install.Missing, "a test")
	if err != nil {
		t.Fatalf("contact %d: %v", at, err)
	}
	for _, report := range reports {
		if !report.Sound() {
			t.Errorf("contact %d: %+v", at, report)
		}
	}
	r, ok = i.Find(a.ID, dataTools)
	tree, now := w.tree(a), listed(registry, a)
	if strings.Contains(tree, ".data-tools") || r.Doing != nil {
		t.Errorf("contact %d: something is left:\n%s\n%+v", at, tree, r)
	}
	switch {
	case !ok: // uninstalled, or never begun
		if now != "" || tree != "" && tree != before {
			t.Errorf("contact %d: no record, tools %q, and\n%s", at, now, tree)
		}
	case r.Status == install.Broken || r.Plugin.Version == "1":
		if tree != before || now != hadTools {
			t.Errorf("contact %d: taken back, tools %q, and\n%s\nbefore\n%s", at, now, tree, before)
		}
		if r.Status == install.Broken && (r.Failure == nil || r.Failure.Step == "") {
			t.Errorf("contact %d: it does not say where it failed: %+v", at, r)
		}
	default:
		if now != "data-tools_look" || !strings.Contains(tree, "only-2/data.txt: 2\n") || !strings.Contains(tree, "set up 2\n") || r.Status != install.Ready {
			t.Errorf("contact %d: done, tools %q, %+v and\n%s", at, now, r, tree)
		}
	}
	if at%6 != 0 { // this doubles the time
		return
	}
	if _, err := i.Install(t.Context(), a, recipe("3"), install.How{}); err != nil {
		t.Errorf("contact %d: the next installation: %v", at, err)
	}
}

// An installation is undone even if its caller has left.
func TestLeft(t *testing.T) {
	w := newWorld(t)
	a := w.agent("alice")
	i, _ := w.open(a)
	ctx, leave := context.WithCancel(t.Context())
	w.fail = func(what string) error {
		if what == "write" {
			leave()
		}
		return nil
	}
	if _, err := i.Install(ctx, a, recipe("1"), install.How{}); err == nil {
		t.Error("it is installed")
	}
	r, ok := i.Find(a.ID, dataTools)
	if got := w.tree(a); got != "" || !ok || r.Status != install.Broken {
		t.Errorf("%q %+v", got, r)
	}
}

// Plugins whose repair is interrupted by the end of the guest are repaired in the next one.
func TestGuestEndsDuringRepair(t *testing.T) {
	t.Parallel() // it waits for programs
	for at := 1; ; at++ {
		w := newWorld(t)
		a := w.agent("alice")
		i, _ := w.open(a)
		ids := []config.PluginID{"one", "two"}
		for _, id := range ids {
			r := plugins.Recipe{Name: string(id), Description: "One of two", Setup: "true", Tools: []plugins.Tool{{ID: "run", Description: "Runs", Run: "true"}}}
			if _, err := i.Install(t.Context(), a, r, install.How{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Remove(layer(a)); err != nil { // it was reset
			t.Fatal(err)
		}
		w.endAfter(at)
		if err := i.Ready(t.Context(), a); err != nil {
			t.Fatalf("question %d: %v", at, err)
		}
		ended := w.ended()
		if err := i.Ready(t.Context(), a); err != nil { // it starts one
			t.Fatalf("question %d: %v", at, err)
		}
		for _, id := range ids {
			r, ok := i.Find(a.ID, id)
			if !ok || r.Status != install.Ready || r.Doing != nil || r.Failure != nil {
				t.Errorf("question %d: %s is %+v, %+v", at, id, r, r.Failure)
			}
		}
		if tree := w.tree(a); strings.Contains(tree, ".one") || strings.Contains(tree, ".two") {
			t.Errorf("question %d: something is left:\n%s", at, tree)
		}
		if !ended {
			if at < 10 {
				t.Fatalf("it asks for the boot only %d times", at)
			}
			return
		}
	}
}
