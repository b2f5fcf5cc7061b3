package sessions

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/supervisor/store"
)

// maxTranscripts is how many transcripts of an agent are kept, those of the last used sessions. It
// exceeds the guest's limit of sessions and bounds an agent to little more than a megabyte.
const maxTranscripts = 32

// transcripts stores the transcripts of sessions in the database. They are deleted with their
// agent.
type transcripts struct{ db *store.DB }

// keptSession is a session with a saved transcript.
type keptSession struct {
	uid  uint32
	id   config.SessionID
	used time.Time
}

func (r transcripts) save(ctx context.Context, uid uint32, id config.SessionID, text string) error {
	return r.db.Write(ctx, "keep transcript", func(tx *sql.Tx) error {
		// The agent may be gone by now.
		if _, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO transcripts (uid, session, used, text)
			SELECT uid, ?, ?, ? FROM agents WHERE uid = ?`, id, time.Now().UnixNano(), text, uid); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM transcripts WHERE uid = ?1 AND session NOT IN
			(SELECT session FROM transcripts WHERE uid = ?1 ORDER BY used DESC LIMIT ?2)`, uid, maxTranscripts)
		return err
	})
}

// read returns a session's transcript and whether it exists.
func (r transcripts) read(ctx context.Context, uid uint32, id config.SessionID) (text string, ok bool, err error) {
	err = r.db.Read(ctx, "read transcript", func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT text FROM transcripts WHERE uid = ? AND session = ?", uid, id).Scan(&text)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		ok = err == nil
		return err
	})
	return text, ok, err
}

// forget deletes a transcript and reports whether it existed.
func (r transcripts) forget(ctx context.Context, uid uint32, id config.SessionID) (was bool, err error) {
	err = r.db.Write(ctx, "forget transcript", func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, "DELETE FROM transcripts WHERE uid = ? AND session = ?", uid, id)
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		was = n > 0
		return err
	})
	return was, err
}

func (r transcripts) list(ctx context.Context) (list []keptSession, err error) {
	err = r.db.Read(ctx, "list transcripts", func(tx *sql.Tx) error {
		list, err = store.All(ctx, tx, func(row store.Row) (k keptSession, err error) {
			var used int64
			err = row.Scan(&k.uid, &k.id, &used)
			k.used = time.Unix(0, used)
			return k, err
		}, "SELECT uid, session, used FROM transcripts")
		return err
	})
	return list, err
}
