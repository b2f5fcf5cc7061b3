package config

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// crashingLog is set in a test process that fills this log twice and crashes.
const crashingLog = "OSAURUS_TEST_CRASHING_LOG"

// The trace of a crash is in the current log, once, wherever standard error goes.
func TestCrashIsInTheCurrentLog(t *testing.T) {
	if path := os.Getenv(crashingLog); path != "" {
		l, err := OpenCrashLog(path, 100)
		if err != nil {
			t.Fatal(err)
		}
		if os.Getenv("FULL") != "" {
			_, _ = l.Write(bytes.Repeat([]byte("x"), 250))
		}
		go panic("it crashes")
		select {}
	}
	for _, full := range []string{"", "yes"} {
		for _, intoLog := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "log")
			cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
			cmd.Env = append(os.Environ(), crashingLog+"="+path, "FULL="+full)
			if intoLog {
				f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				cmd.Stderr = f
			}
			if err := cmd.Run(); err == nil {
				t.Error("it does not crash")
			}
			if text, err := os.ReadFile(path); err != nil || strings.Count(string(text), "panic: it crashes") != 1 {
				t.Errorf("full %q, standard error is the log %v: %q, %v", full, intoLog, text, err)
			}
		}
	}
}
