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

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/history"
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

// undoable runs do between the checkpoints of a call. Do returns the call's error, which is
// returned with a warning if the call cannot be undone.
func (s service) undoable(ctx context.Context, agent agents.Agent, tool, summary string, do func() error) (warning string, err error) {
	clean := s.secretsOf(ctx, agent.Name).Scrubber()
	call := s.Checkpoints.Begin(ctx, agent, tool, checkpoints.Summary(clean.Text(summary)))
	defer func() { // also if it panics
		call.End(string(audit.OutcomeOf(err)))
		warning = call.Warning
	}()
	return "", do()
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
			return strings.Trim(fmt.Sprint(value), "[]")
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
	p := &controlpb.HistoryCall{
		Call: c.Number, Began: moment(c.Began), Ended: moment(c.Ended), Tool: c.Tool, Summary: c.Summary, Outcome: c.Outcome, Changed: c.Changed,
		Counted: c.Counted, Added: int64(c.Added), Modified: int64(c.Modified), Removed: int64(c.Removed),
		LinesAdded: int64(c.LinesAdded), LinesRemoved: int64(c.LinesRemoved), Undoes: c.Undoes, Undone: c.Undone, Trouble: printable.Clip(c.Trouble),
	}
	if c.Pruned() && p.Trouble == "" {
		p.Trouble = "its checkpoints were deleted"
	}
	return p
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
		p := changeProto(change)
		if change.What != history.Mode {
			lines, err := s.Checkpoints.History.Lines(ctx, change.Change)
			if err != nil {
				return err
			}
			p.LinesAdded, p.LinesRemoved, p.Binary, p.TooLarge = int64(lines.Added), int64(lines.Removed), lines.Binary, lines.TooLarge
			if r.Text {
				p.Diff = lines.Diff
			}
		}
		if err := stream.Send(&controlpb.DiffHistoryResponse{Change: p}); err != nil {
			return err
		}
	}
	return nil
}

func changeProto(c checkpoints.Change) *controlpb.FileChange {
	return &controlpb.FileChange{
		Path: printable.Text(c.Path), What: string(c.What), BeforeMode: modeText(c.Before), AfterMode: modeText(c.After), BeforeSize: c.Before.Size, AfterSize: c.After.Size,
	}
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
		return s.Checkpoints.Undo(ctx, agent, checkpoints.Request{Call: r.Call, Redo: r.Redo, Paths: r.Paths, AllSince: r.AllSince, Force: r.Force}, nil)
	})
	if err != nil {
		return nil, err
	}
	return &controlpb.UndoResponse{
		Call: callProto(done.Call), Of: callProto(done.Of), Changes: protos(done.Changes, changeProto), Changed: uint32(done.Changed),
		Left: protos(done.Notes, func(n history.Note) *controlpb.LeftAlone {
			return &controlpb.LeftAlone{Path: printable.Text(n.Path), Why: n.Why}
		}),
	}, nil
}

// Verify reads all checkpoints.
func (s historyService) Verify(ctx context.Context, _ *controlpb.VerifyHistoryRequest) (*controlpb.VerifyHistoryResponse, error) {
	d, err := answered(ctx, s.service, note{action: "history.verify"}, func() (checkpoints.Damage, error) { return s.Checkpoints.Verify(ctx, nil) })
	if err != nil {
		return nil, err
	}
	return &controlpb.VerifyHistoryResponse{
		Objects: protos(d.Objects, history.Digest.String),
		Calls: protos(d.Calls, func(h checkpoints.Hurt) *controlpb.HurtCall {
			return &controlpb.HurtCall{Agent: s.called(h.Agent), Call: h.Call, Path: printable.Text(h.Path)}
		}),
	}, nil
}

// called returns an agent's name, or its id if it is gone.
func (s service) called(id config.AgentID) string {
	agent, err := s.Agents.Get(string(id))
	if err != nil {
		return string(id)
	}
	return string(agent.Name)
}
