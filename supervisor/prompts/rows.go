package prompts

import (
	"context"
	"database/sql"
	"time"

	"osaurus-sandbox/supervisor/store"
)

// rows stores prompts, so that their ends are known after a restart.
type rows struct{ db *store.DB }

const columns = "id, agent, name, kind, plugin, secret, text, asked, deadline, state, ended, cause"

// open cancels the prompts that waited in an earlier daemon, and returns those and all
// prompts.
func (r rows) open(ctx context.Context, cause string) (lost, all []Prompt, err error) {
	const op = "read prompts"
	err = r.db.Write(ctx, op, func(tx *sql.Tx) (err error) {
		if lost, err = store.All(ctx, tx, scan, "UPDATE prompts SET state = ?, ended = ?, cause = ? WHERE state = ? RETURNING "+columns,
			Cancelled, time.Now().UnixNano(), cause, Waiting); err != nil {
			return err
		}
		all, err = store.All(ctx, tx, scan, "SELECT "+columns+" FROM prompts ORDER BY ended")
		return err
	})
	return lost, all, err
}

func (r rows) add(ctx context.Context, p Prompt) error {
	return r.db.Write(ctx, "keep prompt", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO prompts ("+columns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)",
			p.ID, p.Secret.Agent, p.Name, p.Kind, p.Secret.Plugin, p.Secret.Name, p.Text, p.Asked.UnixNano(), p.Deadline.UnixNano(), p.State, p.Cause)
		return err
	})
}

// end stores how a prompt ended, and deletes the oldest ones.
func (r rows) end(ctx context.Context, p Prompt) error {
	return r.db.Write(ctx, "keep prompt", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE prompts SET state = ?, ended = ?, cause = ? WHERE id = ?", p.State, p.Ended.UnixNano(), p.Cause, p.ID); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM prompts WHERE state <> ?1 AND id NOT IN
			(SELECT id FROM prompts WHERE state <> ?1 ORDER BY ended DESC LIMIT ?2)`, Waiting, maxEnded)
		return err
	})
}

func scan(row store.Row) (p Prompt, err error) {
	err = row.Scan(&p.ID, &p.Secret.Agent, &p.Name, &p.Kind, &p.Secret.Plugin, &p.Secret.Name, &p.Text,
		store.Time(&p.Asked), store.Time(&p.Deadline), &p.State, store.Time(&p.Ended), &p.Cause)
	return p, err
}
