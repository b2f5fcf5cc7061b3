package library_test

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/plugins/library"
)

// crashHome has the test be the program that is killed: it saves without end, and says what it has saved.
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
		saved := killed(t, home, round)
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

// killed runs the program until it has saved some, and returns the last that it was heard to have saved.
func killed(t *testing.T, home config.Home, round int) (saved int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, strconv.Itoa(round))
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
		if saved, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatal(err)
		}
		if saved == 1+round%4 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the program ended by itself")
	}
	return saved
}
