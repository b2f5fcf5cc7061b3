package mounts

import (
	"context"
	"fmt"
	"time"

	"osaurus-sandbox/guest"
	"osaurus-sandbox/history/review"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/prompts"
	"osaurus-sandbox/tools"
)

// byTool is the cause of what agents ask for.
const byTool machine.Cause = "a tool"

// Request implements tools.Mounts: a person decides. What may not be mounted is refused before that. The rules
// apply again when the person agrees.
func (m *Mounts) Request(ctx context.Context, a tools.Agent, r tools.FolderRequest) (tools.MountedFolder, error) {
	root, folder, err := m.Rules.Open(r.Path, false)
	if err != nil { // why would tell the agent what there is on this computer
		m.Log.Warn("an agent asked for a folder that cannot be mounted", "agent", a.Name, "folder", r.Path, "error", err)
		return tools.MountedFolder{}, fault.Newf(fault.Rejected, opMount, r.Path, "this folder cannot be mounted").Advise("Ask the person which folder to use, by its whole path.")
	}
	_ = root.Close()
	want, err := Mount{Mode: guest.MountMode(r.Mode)}.complete(a.ID, a.Home, folder)
	if err != nil {
		return tools.MountedFolder{}, err
	}
	what := fmt.Sprintf("to mount %q in mode %s", folder, want.Mode)
	if r.For > 0 {
		what += " for " + r.For.String()
	}
	var made Mount
	_, err = m.Prompts.Ask(ctx, prompts.Question{
		Secret: secrets.Key{Agent: a.ID}, Name: a.Name, Kind: prompts.KindFolder, What: what, Text: r.Why,
		Keep: func(ctx context.Context, c prompts.Choice) (err error) {
			if c != prompts.Yes {
				return nil
			}
			if want.Ask = want.Mode == guest.MountReview; r.For > 0 {
				want.Until = time.Now().Add(r.For)
			}
			made, err = m.Mount(ctx, string(a.ID), want, byTool)
			return err
		},
	}, byTool)
	if err != nil {
		return tools.MountedFolder{}, err
	}
	return tools.MountedFolder{Name: string(made.Name), Path: made.At, Mode: string(made.Mode), Until: made.Until}, nil
}

// Submit implements tools.Mounts: the agent says that it is done. A person is asked if the mount says so. What a
// person approves is what there was when the agent submitted it.
func (m *Mounts) Submit(ctx context.Context, a tools.Agent, name, summary string) (s tools.Submitted, err error) {
	all, err := m.Review(ctx, string(a.ID), name, review.Selection{}, false)
	if err != nil {
		return s, err
	}
	e, err := m.find(string(a.ID), name)
	if err != nil {
		return s, err
	}
	var sel review.Selection
	added, gone := 0, 0
	for _, c := range all.Changes {
		if c.Left != "" {
			s.Left = append(s.Left, tools.LeftChange{Path: c.Path, Reason: c.Left})
			continue
		}
		sel.Picks = append(sel.Picks, review.Pick{Path: c.Path, ID: c.ID})
		added, gone = added+c.Added, gone+c.Removed
	}
	s.Changes = len(all.Changes)
	m.note(SubmitEvent, byTool, e, map[string]string{"changes": fmt.Sprint(len(all.Changes)), "detail": summary})
	if !e.Ask || len(sel.Picks) == 0 {
		return s, nil
	}
	s.Asked = true
	what := fmt.Sprintf("to write %d changes (+%d, -%d lines) to %q", len(sel.Picks), added, gone, e.Folder)
	if len(s.Left) > 0 {
		what += fmt.Sprintf("; %d more are left for you", len(s.Left))
	}
	_, err = m.Prompts.Ask(ctx, prompts.Question{
		Secret: secrets.Key{Agent: a.ID}, Name: a.Name, Kind: prompts.KindReview, What: what + fmt.Sprintf(". See them: osaurus-sandbox review %s %s", a.Name, e.Name), Text: summary,
		Keep: func(ctx context.Context, c prompts.Choice) error {
			if c != prompts.Yes {
				return nil
			}
			report, err := m.Decide(ctx, string(a.ID), name, sel, false, "the answer to a prompt")
			if report != nil {
				s.Accepted = len(report.Done)
				for _, o := range report.Left {
					s.Left = append(s.Left, tools.LeftChange{Path: o.Path, Reason: o.Reason})
				}
			}
			return err
		},
	}, byTool)
	return s, err
}

var _ tools.Mounts = (*Mounts)(nil)
