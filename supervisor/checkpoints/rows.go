package checkpoints

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/store"
)

const (
	// maxUnchanged is how many calls of an agent are kept that changed nothing.
	maxUnchanged = 100
	// maxCalls is how many calls of an agent are kept, also after their checkpoints were pruned.
	maxCalls = 5000
)

// Call is a call that may have changed an agent's folders.
type Call struct {
	Agent        config.AgentID
	Number       int64 // counts the agent's calls
	Began, Ended time.Time
	Tool         string // "" for what changed between calls; Undo and Redo for those
	Summary      string
	Outcome      string
	Trouble      string // why it cannot be undone, if so
	Undoes       int64  // the call that it undid
	Undone       int64  // the call that undid it
	Changed      bool
	Counted      bool // the counts are known
	Counts

	before, after trees
}

// The tools of calls that restore something.
const (
	Undo = "undo"
	Redo = "redo"
)

// Counts are the numbers of changed files and lines. Lines of binary and large files do not count.
type Counts struct{ Added, Modified, Removed, LinesAdded, LinesRemoved int }

// Pruned reports whether its checkpoints were deleted.
func (c Call) Pruned() bool { return c.Changed && c.before == nil }

// Undoable reports whether it changed something and has the checkpoints to undo it.
func (c Call) Undoable() bool { return c.Changed && c.before != nil && c.after != nil }

// trees are the trees of all roots at one time, by their names; nil if they are not known.
type trees map[string]history.Digest

// Value implements driver.Valuer.
func (t trees) Value() (driver.Value, error) {
	if t == nil {
		return "", nil
	}
	text, err := json.Marshal(t)
	return string(text), err
}

// Scan implements sql.Scanner.
func (t *trees) Scan(column any) error {
	text, ok := column.(string)
	if !ok {
		return fmt.Errorf("%T are no trees", column)
	}
	if *t = nil; text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), t)
}

// rows are the table of calls.
type rows struct{ db *store.DB }

const columns = "agent, call, began, ended, tool, summary, outcome, trouble, undoes, undone, changed, counted, added, modified, removed, lines_added, lines_removed, before, after"

func scan(row store.Row) (c Call, err error) {
	return c, row.Scan(&c.Agent, &c.Number, store.Time(&c.Began), store.Time(&c.Ended), &c.Tool, &c.Summary, &c.Outcome, &c.Trouble, &c.Undoes, &c.Undone,
		&c.Changed, &c.Counted, &c.Added, &c.Modified, &c.Removed, &c.LinesAdded, &c.LinesRemoved, &c.before, &c.after)
}

// put writes calls, and numbers those that are new. It deletes what is too much of an agent.
func (r rows) put(ctx context.Context, calls ...*Call) error {
	return r.db.Write(ctx, "write history", func(tx *sql.Tx) error {
		for _, c := range calls {
			if c.Number == 0 {
				if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(call), 0) + 1 FROM history WHERE agent = ?", c.Agent).Scan(&c.Number); err != nil {
					return err
				}
			}
			ended := int64(0)
			if !c.Ended.IsZero() {
				ended = c.Ended.UnixNano()
			}
			_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO history ("+columns+") VALUES (?"+strings.Repeat(", ?", strings.Count(columns, ","))+")",
				c.Agent, c.Number, c.Began.UnixNano(), ended, c.Tool, c.Summary, c.Outcome, c.Trouble, c.Undoes, c.Undone,
				c.Changed, c.Counted, c.Added, c.Modified, c.Removed, c.LinesAdded, c.LinesRemoved, c.before, c.after)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, `DELETE FROM history WHERE agent = ?1 AND ended > 0 AND (call <= ?2 - ?3 OR NOT changed AND call <
				(SELECT call FROM history WHERE agent = ?1 AND ended > 0 AND NOT changed ORDER BY call DESC LIMIT 1 OFFSET ?4))`, c.Agent, c.Number, maxCalls, maxUnchanged-1)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// list returns an agent's newest calls for which a condition holds, newest first.
func (r rows) list(ctx context.Context, agent config.AgentID, limit int, where string, args ...any) ([]Call, error) {
	return store.Select(ctx, r.db, "read history", scan, "SELECT "+columns+" FROM history WHERE agent = ? AND "+where+" ORDER BY call DESC LIMIT ?", append(append([]any{agent}, args...), limit)...)
}

// unfinished returns the calls of all agents without the checkpoint after them.
func (r rows) unfinished(ctx context.Context) ([]Call, error) {
	return store.Select(ctx, r.db, "read history", scan, "SELECT "+columns+" FROM history WHERE ended = 0 ORDER BY call")
}

// get returns a call of an agent.
func (r rows) get(ctx context.Context, agent config.AgentID, number int64) (Call, error) {
	list, err := r.list(ctx, agent, 1, "call = ?", number)
	if err == nil && len(list) == 0 {
		err = fault.Newf(fault.NotFound, "find call", fmt.Sprint(number), "the agent has no such call").Advise("See: osaurus-sandbox history")
	}
	if err != nil {
		return Call{}, err
	}
	return list[0], nil
}

// mark notes which call undid others, or 0 that they are no longer undone.
func (r rows) mark(ctx context.Context, agent config.AgentID, by int64, where string, args ...any) error {
	_, err := r.db.Exec(ctx, "write history", "UPDATE history SET undone = ? WHERE agent = ? AND "+where, append([]any{by, agent}, args...)...)
	return err
}
