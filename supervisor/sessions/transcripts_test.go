package sessions

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/supervisor/store"
)

func openTranscripts(t *testing.T, uids ...uint32) transcripts {
	t.Helper()
	db, err := store.Open(context.Background(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, uid := range uids {
		write(t, db, "INSERT INTO agents (uid, id, name, user, folder, created, settings) VALUES (?1, ?1, ?1, ?1, ?1, 0, '{}')", uid)
	}
	return transcripts{db}
}

func write(t *testing.T, db *store.DB, query string, args ...any) {
	t.Helper()
	if err := db.Write(t.Context(), "test", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), query, args...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func (r transcripts) want(t *testing.T, uid uint32, id config.SessionID, want string) {
	t.Helper()
	text, ok, err := r.read(t.Context(), uid, id)
	if err != nil || ok != (want != "") || text != want {
		t.Errorf("of %d, %s is kept: %q, %v, %v; want %q", uid, id, text, ok, err, want)
	}
}

// Transcripts are each session's own, and go with their agent.
func TestTranscripts(t *testing.T) {
	r := openTranscripts(t, 1, 2)
	for _, s := range []struct {
		uid  uint32
		id   config.SessionID
		text string
	}{{1, "a", "old"}, {1, "a", "new"}, {1, "b", "of b"}, {2, "a", "of 2"}, {3, "a", "of nobody"}} {
		if err := r.save(t.Context(), s.uid, s.id, s.text); err != nil {
			t.Fatal(err)
		}
	}
	r.want(t, 1, "a", "new")
	r.want(t, 1, "b", "of b")
	r.want(t, 2, "a", "of 2")
	r.want(t, 3, "a", "")
	if was, err := r.forget(t.Context(), 1, "b"); err != nil || !was {
		t.Errorf("%v %v", was, err)
	}
	if was, err := r.forget(t.Context(), 1, "b"); err != nil || was {
		t.Errorf("a second time: %v %v", was, err)
	}
	r.want(t, 1, "b", "")
	write(t, r.db, "DELETE FROM agents WHERE uid = 1")
	r.want(t, 1, "a", "")
	r.want(t, 2, "a", "of 2")
	if list, err := r.list(t.Context()); err != nil || len(list) != 1 || list[0].uid != 2 || list[0].id != "a" {
		t.Errorf("%v %v", list, err)
	}
}

// An agent that invents sessions fills no disk: the ones used last are kept.
func TestTranscriptsAreBounded(t *testing.T) {
	r := openTranscripts(t, 1, 2)
	if err := r.save(t.Context(), 2, "mine", "of 2"); err != nil {
		t.Fatal(err)
	}
	for i := range maxTranscripts + 3 {
		if err := r.save(t.Context(), 1, config.SessionID(fmt.Sprint("s", i)), "text"); err != nil {
			t.Fatal(err)
		}
		if err := r.save(t.Context(), 1, "used", "text"); err != nil {
			t.Fatal(err)
		}
	}
	list, err := r.list(t.Context())
	if err != nil || len(list) != maxTranscripts+1 {
		t.Errorf("%d are kept, %v", len(list), err)
	}
	r.want(t, 1, "s0", "")
	r.want(t, 1, "used", "text")
	r.want(t, 2, "mine", "of 2")
}
