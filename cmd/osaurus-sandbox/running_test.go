package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/controlpb/controlpbconnect"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// ran is a command that has begun, and how it ends.
type ran struct {
	exit engine.Exit
	err  error
}

func (ran) Signal(context.Context, engine.Signal) error { return nil }
func (ran) Resize(engine.TerminalSize) error            { return nil }
func (ran) Done() <-chan struct{}                       { return nil }
func (p ran) Wait() (engine.Exit, error)                { return p.exit, p.err }

// 125 means that the command did not begin, so that running it again is safe.
func TestExitCodeOfLostCommand(t *testing.T) {
	broke := fault.Newf(fault.Unavailable, "run command", "", "the machine ended before it did")
	for name, test := range map[string]struct {
		start error
		ran   ran
		want  int
	}{
		"it ended":              {nil, ran{engine.Exit{Code: 3}, nil}, 3},
		"nothing was begun":     {broke, ran{}, exitSandbox},
		"its end is not known":  {nil, ran{engine.Exit{}, broke}, exitLost},
		"nobody reads it":       {nil, ran{engine.Exit{}, syscall.EPIPE}, exitInterrupted + int(syscall.SIGPIPE)},
		"the command timed out": {nil, ran{engine.Exit{TimedOut: true}, nil}, exitInterrupted + int(syscall.SIGTERM)},
	} {
		start := func(context.Context, engine.Command) (process, error) {
			if test.start != nil {
				return nil, test.start
			}
			return test.ran, nil
		}
		for as, run := range map[string]func(context.Context, console, engine.Command, starter) error{"plain": runForPerson, "json": execJSON} {
			var out, errs bytes.Buffer
			err := run(t.Context(), console{strings.NewReader(""), &out, &errs}, engine.Command{Args: []string{"x"}}, start)
			code := finish(t.Context(), &errs, forSandbox(t.Context(), err))
			want := test.want
			if test.ran.exit.TimedOut && as == "json" {
				want = 0
			}
			if told := strings.Contains(out.String(), "exit_code"); code != want || as == "json" && told != (test.start == nil && test.ran.err == nil) {
				t.Errorf("%s, %s: %d, %s%s", name, as, code, &out, &errs)
			}
		}
	}
}

// ended is a machine that has ended.
type ended struct {
	vm.Machine
	reason error
}

func (ended) Done() <-chan struct{} { c := make(chan struct{}); close(c); return c }
func (m ended) Err() error          { return m.reason }

// The machine's own error replaces the connection's, and keeps the exit code.
func TestExplain(t *testing.T) {
	broke, panicked := errors.New("the connection broke"), errors.New("the kernel panicked")
	for _, test := range []struct {
		err, reason error
		code        int
		says        string
	}{
		{nil, panicked, exitOK, ""},
		{exit{code: 3}, panicked, 3, ""},
		{broke, panicked, exitSandbox, "panicked"},
		{broke, nil, exitSandbox, "broke"},
		{lost{broke}, panicked, exitLost, "panicked"},
		{lost{broke}, nil, exitLost, "broke"},
	} {
		var said bytes.Buffer
		err := explain(ended{reason: test.reason}, test.err)
		if code := finish(t.Context(), &said, forSandbox(t.Context(), err)); code != test.code || !strings.Contains(said.String(), test.says) || test.says == "" && said.Len() > 0 {
			t.Errorf("%v, %v: %d, %s", test.err, test.reason, code, &said)
		}
	}
}

// A session's command that timed out has failed, whatever its own exit code.
func TestSessionTimesOut(t *testing.T) {
	t.Setenv(config.HomeVariable, string(standIn(t, handling(controlpbconnect.NewShellsHandler(tooLong{})))))
	for _, test := range []struct {
		args []string
		code int
	}{{nil, exitInterrupted + int(syscall.SIGINT)}, {[]string{"--json"}, 0}} {
		args := append(append([]string{"exec", "alice", "--session", "s"}, test.args...), "--", "sleep 1000")
		if code, out, stderr := sandbox(t, args...); code != test.code || test.args == nil && !strings.Contains(stderr, "the command timed out") {
			t.Errorf("%v: %d, %s%s", args, code, out, stderr)
		}
	}
}

// handling returns a mux for one service.
func handling(path string, service http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle(path, service)
	return mux
}

// tooLong answers that every command timed out and exited with 0.
type tooLong struct {
	controlpbconnect.UnimplementedShellsHandler
}

func (tooLong) Run(context.Context, *controlpb.RunInSessionRequest) (*controlpb.RunInSessionResponse, error) {
	return &controlpb.RunInSessionResponse{TimedOut: true}, nil
}
