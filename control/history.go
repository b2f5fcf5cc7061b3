package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/history"
	"osaurus-sandbox/history/review"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/checkpoints"
)

const (
	// defaultCalls and maxCalls are how many calls List returns.
	defaultCalls, maxCalls = 50, 5000
)

// historyService implements the service History.
type historyService struct{ service }

// begin makes the checkpoints before a call.
func (s service) begin(ctx context.Context, agent agents.Agent, tool, summary string) *checkpoints.Running {
	clean := s.secretsOf(ctx, agent.Name).Scrubber()
	return s.Checkpoints.Begin(ctx, agent, tool, checkpoints.Summary(clean.Text(summary)))
}

// undoable runs do between the checkpoints of a call. Do returns the call's error, which is
// returned with a warning if the call cannot be undone.
func (s service) undoable(ctx context.Context, agent agents.Agent, tool, summary string, do func() error) (warning string, err error) {
	call := s.begin(ctx, agent, tool, summary)
	defer func() { warning = call.End(string(audit.OutcomeOf(err))) }() // also if it panics
	return "", do()
}

// recorded is a process of a call, which ends with it: before its client learns of that and makes another.
type recorded struct {
	engine.Process
	call *checkpoints.Running
}

func (r recorded) Wait() (engine.Exit, error) {
	exit, err := r.Process.Wait()
	r.call.End(string(audit.OutcomeOf(err)))
	return exit, err
}

// toolSummary describes the arguments of a tool: the one that says most, or all. It is not JSON, in
// which secrets would not be found.
func toolSummary(arguments string) string {
	var members map[string]any
	if json.Unmarshal([]byte(arguments), &members) != nil {
		return ""
	}
	for _, name := range []string{"command", "path", "packages"} {
		if value, ok := members[name]; ok {
			if list, ok := value.([]any); ok {
				return strings.TrimSpace(fmt.Sprintln(list...))
			}
			return fmt.Sprint(value)
		}
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		words = append(words, fmt.Sprint(name, "=", members[name]))
	}
	return strings.Join(words, " ")
}

// typed returns a command for people: a line, or redacted arguments.
func (s service) typed(ctx context.Context, agent agents.Agent, line string, args []string) string {
	if line != "" {
		return line
	}
	return redactedCommand(s.secretsOf(ctx, agent.Name).Scrubber(), args)
}

// List lists an agent's calls.
func (s historyService) List(ctx context.Context, r *controlpb.ListHistoryRequest, stream *connect.ServerStream[controlpb.ListHistoryResponse]) error {
	agent, err := s.Agents.Get(r.Agent)
	if err != nil {
		return err
	}
	list, err := s.Checkpoints.List(ctx, agent, int(min(cmp.Or(r.Limit, defaultCalls), maxCalls)))
	for _, call := range list {
		if err == nil {
			err = stream.Send(&controlpb.ListHistoryResponse{Call: callProto(call)})
		}
	}
	return err
}

func callProto(c checkpoints.Call) *controlpb.HistoryCall {
	return &controlpb.HistoryCall{
		Call: c.Number, Began: moment(c.Began), Ended: moment(c.Ended), Tool: c.Tool, Summary: c.Summary, Outcome: c.Outcome, Changed: c.Changed,
		Files: c.Counts.Files(), Lines: c.Counts.Lines(), Undoes: c.Undoes, Undone: c.Undone, Note: c.Note(),
	}
}

// Diff sends what calls changed.
func (s historyService) Diff(ctx context.Context, r *controlpb.DiffHistoryRequest, stream *connect.ServerStream[controlpb.DiffHistoryResponse]) error {
	agent, err := s.Agents.Get(r.Agent)
	if err != nil {
		return err
	}
	for change, err := range s.Checkpoints.Diff(ctx, agent, checkpoints.Range{First: r.First, Last: r.Last}, r.Paths) {
		if err != nil {
			return err
		}
		c := review.Change{Change: change}
		if change.What != history.Mode {
			if c.Lines, err = s.Checkpoints.History.Lines(ctx, change); err != nil {
				return err
			}
		}
		if !r.Text {
			c.Hunks = nil
		}
		if err := stream.Send(&controlpb.DiffHistoryResponse{Change: changeProto(c)}); err != nil {
			return err
		}
	}
	return nil
}

func changeProto(c review.Change) *controlpb.FileChange {
	return &controlpb.FileChange{
		Path: pathText(c.Path), What: string(c.What), Note: noteOf(c), LinesAdded: int32(c.Added), LinesGone: int32(c.Removed), Hunks: protos(c.Hunks, text),
		Id: c.ID, WasFile: c.Before.Kind == history.File, IsFile: c.After.Kind == history.File, Conflict: c.Conflict, Runs: c.Runs, Left: c.Left,
	}
}

// noteOf says what is special about a change.
func noteOf(c review.Change) string {
	before, after := modeText(c.Before), modeText(c.After)
	var list []string
	for _, n := range []struct {
		is   bool
		text string
	}{
		{c.RenamedFrom != "", "renamed from " + pathText(c.RenamedFrom)},
		{before != after && before != "" && after != "", before + " → " + after},
		{max(c.Before.Kind, c.After.Kind) == history.Folder, "folder"},
		{c.After.Kind == history.Link, "link to " + text(c.After.Target)},
		{c.Binary, fmt.Sprintf("not text, %d → %d bytes", c.Before.Size, c.After.Size)},
		{c.Merged, "merged with changes in the folder"},
		{c.Conflict != "", "CONFLICT: " + c.Conflict},
		{c.Runs != "", "MARKED: " + c.Runs},
		{c.Git, "in a .git"},
	} {
		if n.is {
			list = append(list, n.text)
		}
	}
	return strings.Join(list, "; ")
}

// modeText returns kind and permissions as ls shows them.
func modeText(e history.Entry) string {
	kinds := map[history.Kind]fs.FileMode{history.Folder: fs.ModeDir, history.Link: fs.ModeSymlink, history.Special: fs.ModeIrregular}
	if e.Kind == 0 {
		return ""
	}
	return (kinds[e.Kind] | e.Mode).String()
}

// Undo brings back what was before a call.
func (s historyService) Undo(ctx context.Context, r *controlpb.UndoRequest) (*controlpb.UndoResponse, error) {
	action, subject := "history.undo", "the last call"
	if r.Redo {
		action, subject = "history.redo", "the last undo"
	}
	if r.Call != 0 {
		subject = fmt.Sprintf("call %d", r.Call)
	}
	if len(r.Paths) > 0 {
		subject += ": " + commandLine(r.Paths)
	}
	done, err := answeredFor(ctx, s.service, r.Agent, action, subject, func(agent agents.Agent) (checkpoints.Undone, error) {
		return s.Checkpoints.Undo(ctx, agent, checkpoints.Request{Call: r.Call, Redo: r.Redo, Paths: r.Paths, AllSince: r.AllSince, Force: r.Force})
	})
	if err != nil {
		return nil, err
	}
	return &controlpb.UndoResponse{
		Call: callProto(done.Call), Of: callProto(done.Of), Changed: uint32(done.Changed),
		Changes: protos(done.Changes, func(c history.Change) *controlpb.FileChange { return changeProto(review.Change{Change: c}) }),
		Left:    protos(done.Notes, func(n history.Note) string { return printable.Text(n.Path) + ": " + n.Why }),
	}, nil
}

// Verify reads all checkpoints.
func (s historyService) Verify(ctx context.Context, _ *controlpb.VerifyHistoryRequest) (*controlpb.VerifyHistoryResponse, error) {
	answer := &controlpb.VerifyHistoryResponse{}
	return answer, s.audited(ctx, note{action: "history.verify"}, func() error {
		objects, calls, err := s.Checkpoints.Verify(ctx)
		answer.Objects, answer.Calls = protos(objects, history.Digest.String), protos(calls, printable.Text)
		return err
	})
}
