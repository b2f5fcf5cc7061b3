package library_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/plugins/library"
)

// A rename that breaks off after the revisions were linked keeps the plugin and its history, and can be repeated.
func TestRenameBreaksOff(t *testing.T) {
	block := func(path ...string) func(config.Home) {
		return func(home config.Home) {
			if err := os.MkdirAll(filepath.Join(home.Plugins(), filepath.Join(path...), "something"), 0o700); err != nil {
				panic(err)
			}
		}
	}
	for name, breakOff := range map[string]func(config.Home){
		"killed":                       func(config.Home) { panic("killed") },
		"revision cannot be written":   block("versions", "q", "4.json"),
		"plugin file can't be written": block("q.json"),
	} {
		t.Run(name, func(t *testing.T) {
			home := config.Home(t.TempDir())
			l := open(t, home)
			for _, setup := range []string{"a", "b", "c"} {
				save(t, l, recipe("p", setup))
			}
			reached := false // Rename asks for the time before it writes the new revision
			l, err := library.Open(library.Options{Home: home, Now: func() time.Time { reached = true; breakOff(home); return clock() }})
			if err != nil {
				t.Fatal(err)
			}
			func() {
				defer func() { _ = recover() }()
				if _, err := l.Rename("p", "q"); err == nil {
					t.Error("renamed")
				}
			}()
			if err := os.RemoveAll(filepath.Join(home.Plugins(), "q.json")); err != nil || !reached {
				t.Fatal(reached, err)
			}
			l = open(t, home)
			if got := history(t, l, "p"); got != "3*:c 2:b 1:a" {
				t.Errorf("after the failure: %s", got)
			}
			if _, err := l.Rename("p", "q"); err != nil {
				t.Fatal(err)
			}
			if got := history(t, l, "q"); got != "4*:c 3:c 2:b 1:a" {
				t.Errorf("after the second rename: %s", got)
			}
		})
	}
}
