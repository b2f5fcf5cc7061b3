package sessions

import (
	"fmt"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/supervisor/store/storetest"
)

func openTranscripts(t *testing.T, uids ...uint32) transcripts {
	t.Helper()
	db, _ := storetest.New(t)
	for _, uid := range uids {
		if _, err := db.Exec(t.Context(), "test", "INSERT INTO agents (uid, id, name, user, folder, created, settings) VALUES (?1, ?1, ?1, ?1, ?1, 0, '{}')", uid); err != nil {
			t.Fatal(err)
		}
	}
	return transcripts{db}
}

func (r transcripts) want(t *testing.T, uid uint32, id config.SessionID, want string) {
	t.Helper()
	text, ok, err := r.read(t.Context(), uid, id)
	if err != nil || ok != (want != "") || text != want {
		t.Errorf("the transcript of %d, %s: %q, %v, %v; want %q", uid, id, text, ok, err, want)
	}
}

// A transcript belongs to one session, and is deleted with its agent.
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
		t.Errorf("again: %v %v", was, err)
	}
	r.want(t, 1, "b", "")
	if _, err := r.db.Exec(t.Context(), "test", "DELETE FROM agents WHERE uid = 1"); err != nil {
		t.Fatal(err)
	}
	r.want(t, 1, "a", "")
	r.want(t, 2, "a", "of 2")
	if list, err := r.list(t.Context(), 2); err != nil || len(list) != 1 || list[0].ID != "a" {
		t.Errorf("%v %v", list, err)
	}
}

// An agent that starts many sessions does not fill the disk: only the last used ones are kept.
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
	list, err := r.list(t.Context(), 1)
	if err != nil || len(list) != maxTranscripts {
		t.Errorf("%d transcripts, %v", len(list), err)
	}
	r.want(t, 1, "s0", "")
	r.want(t, 1, "used", "text")
	r.want(t, 2, "mine", "of 2")
}
