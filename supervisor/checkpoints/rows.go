package checkpoints

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/store"
)

const opRead, opWrite = "read history", "write history"

// Call is a call that may have changed an agent's folders.
type Call struct {
	Agent        config.AgentID
	Number       int64 // counts the agent's calls
	Began, Ended time.Time
	Tool         string // "" for what changed between calls; Undo and Redo for those
	Summary      string
	Outcome      string
	Undoes       int64   // the call that it undid
	Undone       int64   // the call that undid it
	Changed      bool    // or it is not known whether it did
	Counts       *Counts // nil: not counted

	before, after trees
}

// The tools of calls that restore something.
const (
	Undo = "undo"
	Redo = "redo"
)

// Undoable reports whether it changed something and has the checkpoints to undo it.
func (c Call) Undoable() bool { return c.Changed && c.before != nil && c.after != nil }

// Note says what is special about a call, or nothing.
func (c Call) Note() string {
	switch {
	case c.Undone != 0:
		return fmt.Sprint("undone by ", c.Undone)
	case c.Ended.IsZero():
		return "running"
	case c.Changed && !c.Undoable():
		return "no checkpoint"
	case c.Outcome != "ok":
		return c.Outcome
	}
	return ""
}

// Counts are the numbers of changed files and lines. Lines of binary and large files do not count.
type Counts struct{ Added, Modified, Removed, LinesAdded, LinesRemoved int }

// Files returns the numbers of files as "+1 ~2 -3", without those that are 0.
func (n *Counts) Files() string {
	if n == nil {
		return ""
	}
	var parts []string
	for i, count := range []int{n.Added, n.Modified, n.Removed} {
		if count > 0 {
			parts = append(parts, fmt.Sprintf("%c%d", "+~-"[i], count))
		}
	}
	return strings.Join(parts, " ")
}

// Lines returns the numbers of lines as "+1 -2".
func (n *Counts) Lines() string {
	if n == nil || n.LinesAdded+n.LinesRemoved == 0 {
		return ""
	}
	return fmt.Sprintf("+%d -%d", n.LinesAdded, n.LinesRemoved)
}

// trees are the trees of all roots at one time, by their names; nil if they are not known.
type trees map[string]history.Digest

const columns = "agent, call, began, ended, tool, summary, outcome, undoes, undone, changed, counts, before, after"

func scan(row store.Row) (c Call, err error) {
	err = row.Scan(&c.Agent, &c.Number, store.Time(&c.Began), store.Time(&c.Ended), &c.Tool, &c.Summary, &c.Outcome, &c.Undoes, &c.Undone,
		&c.Changed, store.JSON(&c.Counts), store.JSON(&c.before), store.JSON(&c.after))
	return c, err
}

// put writes calls, and numbers those that are new.
func (c *Checkpoints) put(ctx context.Context, calls ...*Call) error {
	if len(calls) == 0 {
		return nil
	}
	return c.DB.Write(ctx, opWrite, func(tx *sql.Tx) error {
		for _, call := range calls {
			if call.Number == 0 {
				if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(call), 0) + 1 FROM history WHERE agent = ?", call.Agent).Scan(&call.Number); err != nil {
					return err
				}
			}
			_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO history ("+columns+") VALUES (?"+strings.Repeat(", ?", strings.Count(columns, ","))+")",
				call.Agent, call.Number, call.Began.UnixNano(), store.Nanos(call.Ended), call.Tool, call.Summary, call.Outcome, call.Undoes, call.Undone,
				call.Changed, store.JSON(call.Counts), store.JSON(call.before), store.JSON(call.after))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// calls returns the calls for which a condition holds.
func (c *Checkpoints) calls(ctx context.Context, where string, args ...any) ([]Call, error) {
	return store.Select(ctx, c.DB, opRead, scan, "SELECT "+columns+" FROM history WHERE "+where, args...)
}

// pick returns an agent's call by its number, or for 0 the last one for which a condition holds.
func (c *Checkpoints) pick(ctx context.Context, agent agents.Agent, number int64, where string) (Call, error) {
	if number != 0 {
		where = fmt.Sprint("call = ", number)
	}
	list, err := c.calls(ctx, "agent = ? AND "+where+" ORDER BY call DESC LIMIT 1", agent.ID)
	if err == nil && len(list) == 0 {
		err = fault.Newf(fault.NotFound, "find call", "", "%s has no such call", agent.Name).Advise("See its calls: osaurus-sandbox history " + string(agent.Name))
	}
	if err != nil {
		return Call{}, err
	}
	return list[0], nil
}

const (
	// pruneEvery is how often old checkpoints are looked for.
	pruneEvery = 6 * time.Hour
	// Pruning begins when used of the budget is full, and goes on until only kept of it is, so that
	// it is rare.
	used, kept, ofBudget = 9, 7, 10
	// pruneShare is the share (1/8) of the checkpoints that is deleted at a time.
	pruneShare = 8
	// maxCalls is how many calls of an agent are kept, also after their checkpoints were pruned.
	maxCalls = 5000
)

// prune deletes old checkpoints if it is time to, or if one does not fit.
func (c *Checkpoints) prune(unfit bool) {
	if c.life.Err() != nil || !c.pruning.TryLock() {
		return
	}
	defer c.pruning.Unlock()
	budget := int64(c.Settings().MaxMB) << 20
	size, err := c.History.Used()
	if err == nil && !unfit && size <= budget*used/ofBudget && time.Since(c.pruned) < pruneEvery {
		return
	}
	c.pruned = time.Now()
	limit := budget * used / ofBudget
	if unfit {
		limit = min(limit, size) - 1
	}
	if err = cmp.Or(err, c.pruneTo(c.life, limit, budget*kept/ofBudget)); err != nil && c.life.Err() == nil {
		c.Log.Warn("old checkpoints are not deleted", "error", err)
	}
}

// pruneTo deletes checkpoints that are too old, and if the rest has more than limit bytes, the oldest of all
// agents until it has less than enough. No row refers to a new checkpoint at first, but it is the last of its key,
// and History keeps that one.
func (c *Checkpoints) pruneTo(ctx context.Context, limit, enough int64) error {
	const op, forget = "prune history", "UPDATE history SET before = 'null', after = 'null' WHERE ended > 0 AND before != 'null' AND "
	_, err := c.DB.Exec(ctx, op, forget+"began < ?", time.Now().AddDate(0, 0, -c.Settings().MaxDays).UnixNano())
	if err == nil {
		_, err = c.DB.Exec(ctx, op, "DELETE FROM history WHERE call <= (SELECT max(call) FROM history AS h WHERE h.agent = history.agent) - ?", maxCalls)
	}
	for n := 1; err == nil && n > 0; limit = min(limit, enough) {
		if _, _, err = c.History.Prune(ctx, func() ([]history.Digest, error) { return c.referred(ctx) }); err != nil {
			return err
		}
		if size, err := c.History.Used(); err != nil || size <= limit {
			return err
		}
		n, err = c.DB.Exec(ctx, op, forget+`(agent, call) IN (SELECT agent, call FROM history WHERE ended > 0 AND before != 'null' ORDER BY began
			LIMIT (SELECT 1 + count(*) / ? FROM history WHERE ended > 0 AND before != 'null'))`, pruneShare)
	}
	return err
}

// referred returns all trees that rows refer to.
func (c *Checkpoints) referred(ctx context.Context) (list []history.Digest, err error) {
	rows, err := store.Select(ctx, c.DB, opRead, func(row store.Row) (t trees, err error) {
		err = row.Scan(store.JSON(&t))
		return t, err
	}, "SELECT before FROM history UNION SELECT after FROM history")
	for _, t := range rows {
		for _, tree := range t {
			list = append(list, tree)
		}
	}
	return list, err
}
