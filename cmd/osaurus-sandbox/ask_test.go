package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/config"
)

// What would be destroyed is not while the question waits, and the question can be left.
func TestConfirmInterrupted(t *testing.T) {
	term := onTerminal(t, []string{config.HomeVariable + "=" + t.TempDir()}, "reset")
	term.press("Reset? [y/N]", "\x03")
	hangs := time.AfterFunc(2*seenWithin, func() { _ = term.cmd.Process.Kill() })
	defer hangs.Stop()
	if code, shown := term.end(); code != exitInterrupted+int(syscall.SIGINT) || !strings.Contains(shown, "ended by a signal: interrupt") {
		t.Errorf("%d, %q", code, shown)
	}
}
