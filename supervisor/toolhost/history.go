package toolhost

import (
	"context"

	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/checkpoints"
	"osaurus-sandbox/tools"
)

// past implements tools.History.
type past struct{ Options }

func (p past) Calls(ctx context.Context, a tools.Agent, limit int) ([]tools.PastCall, error) {
	agent, err := p.Agents.Get(string(a.ID))
	if err != nil {
		return nil, err
	}
	list, err := p.Checkpoints.List(ctx, agent, limit)
	calls := make([]tools.PastCall, len(list))
	for i, c := range list {
		calls[i] = tools.PastCall{Call: c.Number, Time: c.Began, Tool: c.Tool, Summary: c.Summary, Outcome: c.Outcome, UndoneBy: c.Undone, CanUndo: c.Undoable() && c.Undone == 0,
			Files: c.Counts.Files(), Lines: c.Counts.Lines()}
	}
	return calls, err
}

func (p past) Undo(ctx context.Context, a tools.Agent, call int64, paths []string, allSince bool) (tools.UndoneCall, error) {
	agent, err := p.Agents.Get(string(a.ID))
	if err != nil {
		return tools.UndoneCall{}, err
	}
	done, err := p.Checkpoints.Undo(ctx, agent, checkpoints.Request{Call: call, Paths: paths, AllSince: allSince})
	if err != nil {
		return tools.UndoneCall{}, err
	}
	u := tools.UndoneCall{Call: done.Call.Number, Undid: done.Of.Number, Files: done.Changed}
	for _, c := range done.Changes[:min(len(done.Changes), tools.MaxUndone)] {
		what := map[history.What]string{history.Added: "brought back", history.Removed: "removed"}[c.What]
		if what == "" {
			what = "restored"
		}
		u.Paths = append(u.Paths, what+" "+printable.Clip(c.Path))
	}
	for _, n := range done.Notes[:min(len(done.Notes), tools.MaxUndone)] {
		u.Left = append(u.Left, printable.Clip(n.Path)+": "+n.Why)
	}
	return u, nil
}
