package library_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/plugins/library"
)

// crashHome has the test be the program that is killed: it saves without end, and prints how often it has.
const crashHome = "LIBRARY_TEST_CRASH_HOME"

func TestMain(m *testing.M) {
	home := os.Getenv(crashHome)
	if home == "" {
		os.Exit(m.Run())
	}
	l, err := library.Open(library.Options{Home: config.Home(home), Now: clock})
	for i := 1; err == nil; i++ {
		if _, err = l.Save(recipe("p", os.Args[1]+"-"+strconv.Itoa(i)), library.Update); err == nil {
			_, err = os.Stdout.WriteString(strconv.Itoa(i) + "\n")
		}
	}
	panic(err)
}

// TestKilled kills a program while it saves, over and over: what it said to be saved is what
// counts, or the next, whole.
func TestKilled(t *testing.T) {
	home := config.Home(t.TempDir())
	for round := range 12 {
		saved := killed(t, home, strconv.Itoa(round), 1+round%4)
		l := open(t, home)
		entries, broken, err := l.List()
		if err != nil || len(broken) > 0 || len(entries) != 1 {
			t.Fatalf("killed after %d, there are %d plugins and broken files %v: %v", saved, len(entries), broken, err)
		}
		text, _ := strings.CutPrefix(entries[0].Recipe.Setup, strconv.Itoa(round)+"-")
		if n, err := strconv.Atoi(text); err != nil || n != saved && n != saved+1 {
			t.Errorf("killed after %d, what counts is %s", saved, entries[0].Recipe.Setup)
		}
		if entries[0].Revision == 0 {
			t.Error("what counts is no revision")
		}
		files, err := os.ReadDir(home.Plugins())
		if err != nil || len(files) != 2 { // the plugin, and the folder of revisions
			t.Errorf("left over is %v, %v", files, err)
		}
	}
}

// TestRenameBreaksOff: a rename that ends where the revisions are under the new name and the plugin is not, killed or
// because it cannot be written, leaves the plugin with all of them, and so does the next one.
func TestRenameBreaksOff(t *testing.T) {
	type place = func(home config.Home) string
	inTheWay := func(at place) func(config.Home) {
		return func(home config.Home) {
			if err := os.MkdirAll(filepath.Join(at(home), "something"), 0o700); err != nil {
				panic(err)
			}
		}
	}
	revision := func(home config.Home) string { return filepath.Join(home.Plugins(), "versions", "q", "4.json") }
	plugin := func(home config.Home) string { return filepath.Join(home.Plugins(), "q.json") }
	for name, ends := range map[string]func(config.Home){
		"killed":                         func(config.Home) { panic("killed") },
		"its revision cannot be written": inTheWay(revision),
		"the plugin itself cannot be":    inTheWay(plugin),
	} {
		t.Run(name, func(t *testing.T) {
			home := config.Home(t.TempDir())
			l := open(t, home)
			for _, setup := range []string{"a", "b", "c"} {
				save(t, l, recipe("p", setup))
			}
			asked := false // for the time, which the new revision gets
			l, err := library.Open(library.Options{Home: home, Now: func() time.Time { asked = true; ends(home); return clock() }})
			if err != nil {
				t.Fatal(err)
			}
			func() {
				defer func() { _ = recover() }()
				if _, err := l.Rename("p", "q"); err == nil {
					t.Error("it was renamed")
				}
			}()
			if !asked {
				t.Fatal("it did not come so far")
			}
			if err := os.RemoveAll(plugin(home)); err != nil {
				t.Fatal(err)
			}
			l = open(t, home)
			if got := history(t, l, "p"); got != "3*:c 2:b 1:a" {
				t.Errorf("then it has %s", got)
			}
			if _, err := l.Rename("p", "q"); err != nil {
				t.Fatal(err)
			}
			if got := history(t, l, "q"); got != "4*:c 3:c 2:b 1:a" {
				t.Errorf("renamed again it has %s", got)
			}
		})
	}
}

// killed runs the program until it has done what it does so often, and returns how often it was heard to have.
func killed(t *testing.T, home config.Home, what string, often int) (done int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, what)
	cmd.Env = append(os.Environ(), crashHome+"="+string(home))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if done, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatal(err)
		}
		if done == often {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the program ended by itself")
	}
	return done
}
