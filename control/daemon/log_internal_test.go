package daemon

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
)

// The size of the logs is bounded, even if a user removes them or the log cannot be renamed.
func TestLogIsRotated(t *testing.T) {
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	if _, err := home.Make(home.Logs()); err != nil {
		t.Fatal(err)
	}
	l, err := config.OpenLog(control.DaemonLog(home), maxLog)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	log := control.DaemonLog(home)
	old := log + config.OldLog
	line := bytes.Repeat([]byte("x"), 64<<10)
	write := func(when string) {
		t.Helper()
		for much := 0; much < 2*maxLog+maxLog/2; much += len(line) {
			if n, err := l.Write(line); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
		}
		if info, err := os.Stat(log); err != nil || info.Size() == 0 || info.Size() > maxLog {
			t.Errorf("%s: the log is %v, %v", when, info, err)
		}
	}
	write("first")
	if info, err := os.Stat(old); err != nil || info.Size() != maxLog {
		t.Errorf("the log before is %v, %v", info, err)
	}
	if err := errors.Join(os.Remove(log), os.Remove(old)); err != nil {
		t.Fatal(err)
	}
	write("after they were removed")
	if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(old, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("when it cannot be renamed")
}
