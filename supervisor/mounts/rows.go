package mounts

import (
	"context"
	"time"

	"osaurus-sandbox/supervisor/store"
)

// rows keeps mounts in the database. The rows of a deleted agent are deleted with it.
type rows struct{ db *store.DB }

func (r rows) add(ctx context.Context, m Mount) error {
	_, err := r.db.Exec(ctx, opMount, "INSERT INTO mounts (agent, name, folder, at, mode, made, until, keep, ask, everything) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		m.Agent, m.Name, m.Folder, m.At, m.Mode, nanos(m.Made), nanos(m.Until), m.Keep, m.Ask, m.All)
	return err
}

func (r rows) remove(ctx context.Context, k key) error {
	_, err := r.db.Exec(ctx, opUnmount, "DELETE FROM mounts WHERE agent = ? AND name = ?", k.agent, k.name)
	return err
}

func (r rows) all(ctx context.Context) ([]Mount, error) {
	return store.Select(ctx, r.db, "read mounts", func(row store.Row) (m Mount, err error) {
		var made, until int64
		err = row.Scan(&m.Agent, &m.Name, &m.Folder, &m.At, &m.Mode, &made, &until, &m.Keep, &m.Ask, &m.All)
		if m.Made = time.Unix(0, made).UTC(); until != 0 {
			m.Until = time.Unix(0, until).UTC()
		}
		return m, err
	}, "SELECT agent, name, folder, at, mode, made, until, keep, ask, everything FROM mounts ORDER BY agent, name")
}

// nanos returns a time as nanoseconds since 1970, or 0 for none.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
