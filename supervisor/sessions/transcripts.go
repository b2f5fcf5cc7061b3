package sessions

import (
	"context"
	"database/sql"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/supervisor/store"
)

// maxTranscripts is how many transcripts of an agent are kept, those of the last used sessions. It
// exceeds the guest's limit of sessions and bounds an agent to little more than a megabyte.
const maxTranscripts = 32

// transcripts stores the transcripts of sessions in the database. They are deleted with their
// agent.
type transcripts struct{ db *store.DB }

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
	return store.Find(ctx, r.db, "read transcript", store.Value[string], "SELECT text FROM transcripts WHERE uid = ? AND session = ?", uid, id)
}

// forget deletes a transcript and reports whether it existed.
func (r transcripts) forget(ctx context.Context, uid uint32, id config.SessionID) (existed bool, err error) {
	n, err := r.db.Exec(ctx, "forget transcript", "DELETE FROM transcripts WHERE uid = ? AND session = ?", uid, id)
	return n > 0, err
}

// list returns the sessions of an agent that have a transcript.
func (r transcripts) list(ctx context.Context, uid uint32) ([]engine.Session, error) {
	return store.Select(ctx, r.db, "list transcripts", func(row store.Row) (engine.Session, error) {
		s := engine.Session{State: engine.SessionEnded}
		err := row.Scan(&s.ID, store.Time(&s.Used))
		return s, err
	}, "SELECT session, used FROM transcripts WHERE uid = ?", uid)
}
