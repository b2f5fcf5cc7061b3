package tools

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// The argument cwd is at fault only if the folder does not exist.
func TestFolderIsBlamed(t *testing.T) {
	call := alice()
	call.Agent.Home = "/workspace/agents/alice"
	noFolder := fault.New(fault.NotFound, engine.OpRun, "/bin/sh", fault.Newf(fault.NotFound, "enter directory", call.Agent.Home+"/src", "no such file or directory"))
	for name, test := range map[string]struct {
		err    error
		folder bool
	}{
		"no folder":        {noFolder, true},
		"a long command":   {fault.Newf(fault.InvalidArgs, "check command", "", "argument or variable 4 has 133120 bytes, more than 131072"), false},
		"a deleted agent":  {fault.Newf(fault.NotFound, "find agent", "alice", "there is none"), false},
		"no shell to run":  {fault.New(fault.NotFound, engine.OpRun, "/bin/sh", fault.Newf(fault.NotFound, "start program", "/bin/sh", "no such file or directory")), false},
		"a broken machine": {fault.Newf(fault.Unavailable, engine.OpRun, "/bin/sh", "it has ended"), false},
	} {
		rooms := func(Agent) engine.Room { return refusing{err: test.err} }
		r := NewRegistry(slog.New(slog.DiscardHandler), newExec(rooms), newCode(rooms))
		for arguments, tool := range map[string]string{
			`{"command": "make", "cwd": "src"}`:                     "sandbox_exec",
			`{"command": "make", "cwd": "src", "background": true}`: "sandbox_exec",
			`{"code": "1", "cwd": "src"}`:                           "sandbox_execute_code",
		} {
			call := call
			call.Turn = arguments // each turn has its own limit
			got := r.Call(t.Context(), call, tool, json.RawMessage(arguments)).Text()
			if blamed := strings.Contains(got, `"field":"cwd"`); blamed != test.folder {
				t.Errorf("%s, %s %s: %s", name, tool, arguments, got)
			}
		}
	}
}

// refusing is a room that starts nothing.
type refusing struct {
	engine.Room
	err error
}

func (r refusing) Exec(context.Context, engine.Command) (engine.Process, error) {
	return nil, r.err
}

func (r refusing) StartJob(context.Context, engine.JobCommand) (engine.Job, error) {
	return engine.Job{}, r.err
}
