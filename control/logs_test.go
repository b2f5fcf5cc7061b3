package control

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
)

// A log is read from the one before it on, and to its end when it is replaced.
func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write := func(name, text string) {
		t.Helper()
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	log := &tail{source: sourceDaemon, path: path}
	defer tails{log}.close()
	want := func(lines ...string) {
		t.Helper()
		var got []string
		err := log.read(func(l *controlpb.LogsResponse) error { got = append(got, l.Text); return nil })
		if err != nil || !slices.Equal(got, lines) {
			t.Errorf("%q, %v, want %q", got, err, lines)
		}
	}
	want()
	log.began = false
	write(path+config.OldLog, "first\n")
	want("first")
	write(path, "time=2026-01-02T03:04:05Z second\r\nthi")
	want("second")
	write(path, "rd\n"+strings.Repeat("x", maxLine+1)+"\n")
	want("third", strings.Repeat("x", maxLine), "x")
	write(path, "last\n")
	if err := os.Rename(path, path+config.OldLog); err != nil {
		t.Fatal(err)
	}
	want("last")
	write(path, "new\n")
	want("new")
}
