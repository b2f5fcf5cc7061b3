package tools

import (
	"context"
	"time"

	"osaurus-sandbox/internal/fault"
)

const (
	// MaxUndone is how many files the result of sandbox_undo names.
	MaxUndone = 50
	// undoTime is long enough to restore a large home.
	undoTime = 5 * time.Minute
)

// History is what an agent's calls changed in its home, and undoes it.
type History interface {
	// Calls returns the last calls, newest first.
	Calls(ctx context.Context, a Agent, limit int) ([]PastCall, error)
	// Undo undoes a call, or for 0 the last one that changed something.
	Undo(ctx context.Context, a Agent, call int64, paths []string, allSince bool) (UndoneCall, error)
}

// PastCall is a call in an agent's history.
type PastCall struct {
	Call     int64     `json:"call"`
	Time     time.Time `json:"time"`
	Tool     string    `json:"tool,omitempty" jsonschema:"none for what changed between calls"`
	Summary  string    `json:"summary,omitempty"`
	Outcome  string    `json:"outcome,omitempty"`
	Files    string    `json:"files,omitempty" jsonschema:"+added ~modified -removed"`
	Lines    string    `json:"lines,omitempty"`
	UndoneBy int64     `json:"undone_by,omitempty"`
	CanUndo  bool      `json:"can_undo"`
}

// UndoneCall is the result of an undo.
type UndoneCall struct {
	Call  int64    `json:"call" jsonschema:"the undo itself, which can be undone"`
	Undid int64    `json:"undid"`
	Files int      `json:"changed" jsonschema:"files and folders"`
	Paths []string `json:"paths" jsonschema:"not all if there are many"`
	Left  []string `json:"left_alone,omitempty" jsonschema:"and why"`
}

type historyIn struct {
	Limit int `json:"limit,omitempty" jsonschema:"how many calls" limit:"min=1,max=100,default=20"`
}

type historyOut struct {
	Calls []PastCall `json:"calls" jsonschema:"newest first"`
}

// newHistory makes sandbox_history.
func newHistory(h History) Tool {
	return Define(Spec{
		Name: "sandbox_history", Title: "List what calls changed", Gate: Exec,
		Hints:       Hints{ReadOnly: true},
		Description: `List your last calls and how many files and lines each changed in your home folder. Their numbers are for sandbox_undo.`,
	}, func(ctx context.Context, c *Call, in historyIn) (historyOut, error) {
		calls, err := h.Calls(ctx, c.Agent, in.Limit)
		return historyOut{calls}, err
	})
}

type undoIn struct {
	Call     int      `json:"call,omitempty" jsonschema:"a number from sandbox_history; without it, the last call that changed something" limit:"min=0"`
	Paths    []string `json:"paths,omitempty" jsonschema:"bring back only these files and folders; relative to your home folder" limit:"maxitems=100"`
	AllSince bool     `json:"all_since,omitempty" jsonschema:"undo everything that changed since that call began, too"`
}

// newUndo makes sandbox_undo.
func newUndo(h History) Tool {
	return Define(Spec{
		Name: "sandbox_undo", Title: "Undo what a call changed", Gate: Exec, Budget: undoTime, NoCheckpoint: true,
		Hints: Hints{Destructive: true},
		Description: `Bring files in your home folder back as they were before a call. What other calls changed stays. It is refused if files were changed again since: then name other paths, or set all_since. ` +
			`Installed packages and files elsewhere are not brought back.`,
	}, func(ctx context.Context, c *Call, in undoIn) (UndoneCall, error) {
		done, err := h.Undo(ctx, c.Agent, int64(in.Call), in.Paths, in.AllSince)
		switch fault.KindOf(err) {
		case fault.Rejected:
			err = &Failure{Kind: fault.Rejected, Message: err.Error() + ". Name other paths, set all_since, or wait until your calls and programs have ended", Cause: err}
		case fault.NotFound:
			err = &Failure{Kind: fault.NotFound, Message: err.Error() + ". sandbox_history lists the calls", Cause: err}
		}
		return done, err
	})
}
