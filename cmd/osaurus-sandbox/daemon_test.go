package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
)

// The last words of one daemon are not lost when another is started, and each start hears its own.
func TestLastWords(t *testing.T) {
	home := config.Home(t.TempDir())
	t.Setenv(asProgram, "1")
	for n, setting := range []string{"first", "second"} {
		if err := config.WriteFile(home.SettingsFile(), []byte(`{"`+setting+`": 1}`)); err != nil {
			t.Fatal(err)
		}
		_, ended, err := startDaemon(home, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !strings.Contains(err.Error(), setting) || n == 1 && strings.Contains(err.Error(), "first") {
			t.Errorf("%s: %v", setting, err)
		}
	}
	words, err := os.ReadFile(control.StartLog(home))
	if err != nil || bytes.Count(words, []byte("time=")) != 2 || !bytes.Contains(words, []byte("first")) || !bytes.Contains(words, []byte("second")) {
		t.Errorf("kept is %s, %v", words, err)
	}
	if err := os.Truncate(control.StartLog(home), maxStartLog+1); err != nil {
		t.Fatal(err)
	}
	_, ended, err := startDaemon(home, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !strings.Contains(err.Error(), "second") {
		t.Errorf("after too much: %v", err)
	}
	if at, err := os.Stat(control.StartLog(home)); err != nil || at.Size() > maxStartLog {
		t.Errorf("too much is kept: %v", err)
	}
}
