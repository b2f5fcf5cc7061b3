package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/controlpb/controlpbconnect"
	"osaurus-sandbox/internal/timetest"
)

// The detach key detaches if pressed twice in a row, however it arrives. Otherwise it is passed on.
func TestCarryKeys(t *testing.T) {
	const wait = "" // longer than the wait for the second key
	for _, tc := range []struct {
		name  string
		typed []string
		want  string
		left  bool // before all keys were passed on
	}{
		{"nothing special", []string{"ls", "\r"}, "ls\r", false},
		{"twice at once", []string{"ls\r\x1d\x1dlost"}, "ls\r", true},
		{"twice, one after the other", []string{"ls\r\x1d", "\x1d", "lost"}, "ls\r", true},
		{"once, and something else", []string{"a\x1db", "\x1d", "c"}, "a\x1db\x1dc", false},
		{"once, and nothing", []string{"\x1d", wait, "x"}, "\x1dx", false},
		{"twice, but slowly", []string{"\x1d", wait, "\x1d", wait, "x"}, "\x1d\x1dx", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			timetest.Synthetic(t, func(t *testing.T) {
				typed := make(chan []byte)
				var got bytes.Buffer
				done := make(chan error, 1)
				go func() { done <- carryKeys(typed, &got) }()
				left := false
				for _, keys := range tc.typed {
					if keys == wait {
						time.Sleep(2 * detachWait)
						continue
					}
					select {
					case typed <- []byte(keys):
					case err := <-done:
						done <- err
						left = true
					}
				}
				close(typed)
				if err := <-done; err != nil || got.String() != tc.want || !strings.Contains(tc.typed[len(tc.typed)-1], "lost") && left != tc.left {
					t.Errorf("%q, left %v, %v", got.String(), left, err)
				}
			})
		})
	}
	broken := errors.New("gone")
	typed := make(chan []byte, 1)
	typed <- []byte("x")
	if err := carryKeys(typed, brokenWriter{broken}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestScreen(t *testing.T) {
	for _, tc := range []struct{ shown, undone string }{
		{"hello\r\n", ""},
		{enterOther + "\x1b[?25l vim", leaveOther},
		{enterOther + " vim " + leaveOther, ""},
		{leaveOther + enterOther, leaveOther},
	} {
		for _, size := range []int{1, 7, 10_000} { // sequences may be split
			var out bytes.Buffer
			s := &screen{Writer: &out}
			for part := range slices.Chunk([]byte(tc.shown), size) {
				if _, err := s.Write(part); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.restore(); err != nil || out.String() != tc.shown+resetScreen+tc.undone {
				t.Errorf("%q, in pieces of %d: %q, %v", tc.shown, size, strings.TrimPrefix(out.String(), tc.shown), err)
			}
		}
	}
}

func TestAsLine(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{{[]string{"cd src && ls | wc -l"}, "cd src && ls | wc -l"}, {[]string{"echo", "it's", "a b", ""}, `'echo' 'it'\''s' 'a b' ''`}} {
		if got := asLine(tc.args); got != tc.want {
			t.Errorf("%q is %s", tc.args, got)
		}
	}
}

// While a shell waits for the sandbox, its terminal stays in its normal mode, and Ctrl-C ends the
// wait.
func TestShellWaits(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle(controlpbconnect.NewShellsHandler(noShell{}))
	term := onTerminal(t, []string{config.HomeVariable + "=" + string(standIn(t, mux))}, "shell", "alice")
	term.press("boot", "\x03")
	hangs := time.AfterFunc(2*seenWithin, func() { _ = term.cmd.Process.Kill() })
	defer hangs.Stop()
	code, shown := term.end()
	if code != exitInterrupted+int(syscall.SIGINT) || !strings.Contains(shown, "make the disk") || strings.Count(shown, "\n") != strings.Count(shown, "\r\n") {
		t.Errorf("%d, %q", code, shown)
	}
}

// noShell never starts a shell.
type noShell struct {
	controlpbconnect.UnimplementedShellsHandler
}

func (noShell) Attach(ctx context.Context, _ *connect.BidiStream[controlpb.ExecRequest, controlpb.ExecResponse]) error {
	<-ctx.Done()
	return ctx.Err()
}
