package library_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/library"
)

// clock is the time of all revisions.
func clock() time.Time { return time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC) }

func open(t *testing.T, home config.Home) *library.Library {
	t.Helper()
	l, err := library.Open(library.Options{Home: home, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func recipe(name, setup string) plugins.Recipe {
	return plugins.Recipe{
		Name: name, Description: "A plugin to try", Setup: setup,
		Tools: []plugins.Tool{{ID: "hello", Description: "Says hello", Run: "echo hello"}},
	}
}

func save(t *testing.T, l *library.Library, r plugins.Recipe) library.Entry {
	t.Helper()
	e, err := l.Save(r, library.Update)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// setup returns the setup of a plugin, which differs between the test's revisions.
func setup(t *testing.T, l *library.Library, id config.PluginID) string {
	t.Helper()
	e, err := l.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	return e.Recipe.Setup
}

func wantKind(t *testing.T, err error, want fault.Kind) {
	t.Helper()
	if err == nil || fault.KindOf(err) != want {
		t.Errorf("it fails with %v, not with %s", err, want)
	}
}

// history lists a plugin's revisions, newest first: "2*:b 1:a".
func history(t *testing.T, l *library.Library, id config.PluginID) string {
	t.Helper()
	past, err := l.History(id)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, p := range past {
		mark := ""
		if p.Current {
			mark = "*"
		}
		list = append(list, fmt.Sprintf("%d%s:%s", p.Revision, mark, p.Recipe.Setup))
	}
	return strings.Join(list, " ")
}

func TestSaveAndRollback(t *testing.T) {
	home := config.Home(t.TempDir())
	l := open(t, home)
	first := save(t, l, recipe("My Plugin", "a"))
	if first.ID != "my-plugin" || first.Revision != 1 || first.Recipe.ModifiedAt.IsZero() {
		t.Errorf("saved as %+v", first)
	}
	if again := save(t, l, recipe("My Plugin", "a")); !reflect.DeepEqual(again, first) {
		t.Errorf("the same saved again is %+v, not %+v", again, first)
	}
	save(t, l, recipe("My Plugin", "b"))
	save(t, l, recipe("My Plugin", "c"))
	if got := history(t, l, "my-plugin"); got != "3*:c 2:b 1:a" {
		t.Errorf("its history is %s", got)
	}
	if _, err := l.Rollback("my-plugin", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Rollback("my-plugin", 1); err != nil {
		t.Fatal(err)
	}
	if got := history(t, l, "my-plugin"); got != "5*:a 4:b 3:c 2:b 1:a" {
		t.Errorf("after going back twice its history is %s", got)
	}
	_, err := l.Rollback("my-plugin", 9)
	wantKind(t, err, fault.NotFound)

	// The history is on disk.
	if got := history(t, open(t, home), "my-plugin"); got != "5*:a 4:b 3:c 2:b 1:a" {
		t.Errorf("opened again its history is %s", got)
	}
	if err := l.Remove("my-plugin"); err != nil {
		t.Fatal(err)
	}
	_, err = l.Get("my-plugin")
	wantKind(t, err, fault.NotFound)
	wantKind(t, l.Remove("my-plugin"), fault.NotFound)
	if e := save(t, l, recipe("My Plugin", "z")); e.Revision != 1 {
		t.Errorf("after it was removed it begins with revision %d", e.Revision)
	}
}

// A plugin is not replaced by one of another name with the same id, or without permission.
func TestCollisions(t *testing.T) {
	l := open(t, config.Home(t.TempDir()))
	save(t, l, recipe("Data Tools", "a"))
	_, err := l.Save(recipe("data-tools", "a"), library.Update)
	wantKind(t, err, fault.Rejected)
	_, err = l.Save(recipe("Data Tools", "b"), library.Create)
	wantKind(t, err, fault.Rejected)
	refused := errors.New("it is somebody else's")
	if _, err = l.Save(recipe("Data Tools", "b"), func(old library.Entry) error {
		if old.Recipe.Setup != "a" {
			t.Errorf("asked about %+v", old)
		}
		return refused
	}); !errors.Is(err, refused) {
		t.Errorf("saved although refused: %v", err)
	}
	_, err = l.Save(recipe("sandbox", "a"), library.Update)
	wantKind(t, err, fault.InvalidArgs)
	if got := setup(t, l, "data-tools"); got != "a" {
		t.Errorf("its setup has become %q", got)
	}
}

// Files that people edit are used, broken ones are reported, and both become revisions.
func TestFilesOfOthers(t *testing.T) {
	home := config.Home(t.TempDir())
	l := open(t, home)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(home.Plugins(), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save(t, l, recipe("p", "a"))
	write("p.json", `{"name":"p","description":"by hand","setup":"hand"}`)
	if e, err := l.Get("p"); err != nil || e.Revision != 0 || e.Recipe.Setup != "hand" {
		t.Errorf("changed by hand it is %+v, %v", e, err)
	}
	save(t, l, recipe("p", "b"))
	if got := history(t, l, "p"); got != "3*:b 2:hand 1:a" {
		t.Errorf("its history is %s", got)
	}

	write("p.json", `{"name":"p",`)
	write("other.json", `{"name":"p","description":"in the wrong file"}`)
	write("No Id.json", `{}`)
	write("notes.txt", `not ours`)
	if err := os.Mkdir(filepath.Join(home.Plugins(), "folder.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	entries, broken, err := l.List()
	if err != nil || len(entries) != 0 || len(broken) != 4 {
		t.Errorf("the list has %d plugins, %d broken files: %v, %v", len(entries), len(broken), broken, err)
	}
	if text, err := l.Text("p", 0); err != nil || string(text) != `{"name":"p",` {
		t.Errorf("its text is %q, %v", text, err)
	}
	if _, err := l.Rollback("p", 0); err != nil || setup(t, l, "p") != "b" {
		t.Errorf("rolled back from a broken file: %v", err)
	}
	past, err := l.History("p")
	if err != nil || len(past) != 5 || past[1].Err == nil {
		t.Errorf("the broken text is no revision: %+v, %v", past, err)
	}
}

// The list is sorted by id, not by file name.
func TestListIsInOrder(t *testing.T) {
	l := open(t, config.Home(t.TempDir()))
	for _, name := range []string{"a.b", "a", "b", "a-b"} {
		save(t, l, recipe(name, "x"))
	}
	entries, broken, err := l.List()
	if err != nil || len(entries) != 4 || len(broken) != 0 {
		t.Fatal(entries, broken, err)
	}
	for i := range entries[1:] {
		if entries[i].ID >= entries[i+1].ID {
			t.Errorf("%s stands before %s", entries[i].ID, entries[i+1].ID)
		}
	}
}

func TestDuplicate(t *testing.T) {
	l := open(t, config.Home(t.TempDir()))
	save(t, l, recipe("old", "a"))
	save(t, l, recipe("old", "b"))
	save(t, l, recipe("taken", "x"))
	_, err := l.Duplicate("old", "taken")
	wantKind(t, err, fault.Rejected)
	if e, err := l.Duplicate("old", "copy"); err != nil || e.ID != "copy" || e.Revision != 1 {
		t.Errorf("duplicated to %+v, %v", e, err)
	}
}

// The oldest revisions are removed, and numbers continue.
func TestManyRevisions(t *testing.T) {
	l := open(t, config.Home(t.TempDir()))
	for i := range 53 {
		save(t, l, recipe("p", fmt.Sprint(i)))
	}
	past, err := l.History("p")
	if err != nil || len(past) != 50 || past[0].Revision != 53 || past[49].Revision != 4 {
		t.Errorf("of 53 revisions there are %d: %v", len(past), err)
	}
}
