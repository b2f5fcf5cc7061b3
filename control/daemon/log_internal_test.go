package daemon

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
)

// A log that cannot be put aside is put aside later, under its own name until then. While
// nothing works for long, it still has no more than its two files may.
func TestLogThatCannotBePutAside(t *testing.T) {
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	l, err := openLog(home)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	line := bytes.Repeat([]byte("x"), 64<<10)
	write := func(much int) {
		t.Helper()
		for ; much > 0; much -= len(line) {
			if n, err := l.Write(line); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
		}
	}
	size := func(path string) int64 {
		t.Helper()
		info, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			return 0
		}
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	log := control.DaemonLog(home)
	old := log + control.OldLog

	write(maxLog)
	withoutDescriptors(t, func() { write(2 * maxLog) })
	if now, before := size(log), size(old); now == 0 || now+before > 2*maxLog {
		t.Errorf("the log has %d bytes, and the one before it %d", now, before)
	}

	write(2*maxLog + maxLog/2)
	if now, before := size(log), size(old); now == 0 || now > maxLog || before != maxLog {
		t.Errorf("the log has %d bytes, and the one before it %d", now, before)
	}

	// Whoever takes the log away gets another.
	if err := errors.Join(os.Remove(log), os.Remove(old)); err != nil {
		t.Fatal(err)
	}
	write(maxLog + maxLog/2)
	if now := size(log); now == 0 || now > maxLog {
		t.Errorf("the log has %d bytes", now)
	}
}

// withoutDescriptors does something while this process can open no file.
func withoutDescriptors(t *testing.T, do func()) {
	t.Helper()
	var usual syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: usual.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &usual); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}
