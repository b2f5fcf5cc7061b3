package events

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/store"
)

func database(t testing.TB, path string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func journal(t testing.TB, db *store.DB, l limits) *Journal {
	t.Helper()
	j, err := open(t.Context(), db, l)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

var ordinary = limits{Keep, slack, maxUnkept}

// put notes an event and keeps it.
func (j *Journal) put(ctx context.Context, e Event) (Event, error) {
	e, err := j.Note(e)
	if err != nil {
		return e, err
	}
	return e, j.Keep(ctx)
}

func (j *Journal) add(t testing.TB, kind Kind, n int) (last Event) {
	t.Helper()
	for range n {
		var err error
		if last, err = j.put(t.Context(), Event{Kind: kind, Cause: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

func (j *Journal) list(t testing.TB, after Seq) (list []Event) {
	t.Helper()
	for e, err := range j.Read(t.Context(), after, false) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func TestNote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := database(t, path)
	j := journal(t, db, ordinary)
	long, then := strings.Repeat("é", maxText), time.Now().Add(-time.Minute)
	fields := map[string]string{"from": "stopped", "text": long, "bytes": "\xff\x00"}
	first, err := j.put(t.Context(), Event{Kind: "state", Cause: "you: \"up\"\n", Fields: fields, Time: then})
	if err != nil || first.Seq != 1 || !first.Time.Equal(then) {
		t.Fatalf("%+v, %v", first, err)
	}
	clear(fields) // the caller's again
	if text := first.Fields["text"]; len(text) > maxText || !utf8.ValidString(text) || !strings.HasSuffix(text, "é…") {
		t.Errorf("%d bytes: …%q", len(text), text[len(text)-8:])
	}
	second := j.add(t, "host_slept", 1)
	if d := time.Since(second.Time); d < 0 || d > time.Minute {
		t.Errorf("it was %v ago", d)
	}
	same := func(when string, j *Journal) {
		t.Helper()
		list := j.list(t, 0)
		if len(list) != 2 || !maps.Equal(list[0].Fields, first.Fields) || list[0].Cause != first.Cause || list[0].Time != first.Time || list[1].Seq != 2 {
			t.Errorf("%s: %+v", when, list)
		}
	}
	same("from memory", j)
	if err := errors.Join(j.Close(t.Context()), db.Close()); err != nil {
		t.Fatal(err)
	}
	j = journal(t, database(t, path), ordinary)
	same("from the disk", j)
	if e := j.add(t, "more", 1); e.Seq != 3 {
		t.Errorf("after an orderly end numbers go on with %d", e.Seq)
	}
	if list := j.list(t, 2); len(list) != 1 || list[0].Seq != 3 {
		t.Errorf("after 2: %+v", list)
	}
	for _, foreign := range []Seq{-1, 4, 1 << 62} {
		for _, err := range j.Read(t.Context(), foreign, true) {
			if fault.KindOf(err) != fault.InvalidArgs {
				t.Errorf("after %d: %v", foreign, err)
			}
		}
	}
}

// What a journal showed and could not keep before it died keeps its number:
// nothing else gets it, and nobody is told of a gap that is none.
func TestNumbersAreNeverGivenTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := database(t, path)
	j := journal(t, db, ordinary)
	kept := j.add(t, "kept", 3)
	hold(t, db, func() {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if e, err := j.put(ctx, Event{Kind: "lost"}); err == nil || e.Seq != kept.Seq+1 {
			t.Fatalf("%+v, %v", e, err)
		}
	})
	db.Close() // without the journal, as if killed
	j = journal(t, database(t, path), ordinary)
	next := j.add(t, "next", 1)
	if next.Seq <= kept.Seq+1 {
		t.Errorf("number %d is given twice", next.Seq)
	}
	for after := range Seq(6) {
		list := j.list(t, after)
		if want := max(1, 4-int(after)); len(list) != want || list[want-1].Seq != next.Seq {
			t.Errorf("after %d: %+v", after, list)
		}
	}
}

// hold runs do while nothing can be written to the database.
func hold(t testing.TB, db *store.DB, do func()) {
	t.Helper()
	if err := db.Write(t.Context(), "hold", func(*sql.Tx) error { do(); return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestForget(t *testing.T) {
	db := database(t, filepath.Join(t.TempDir(), "db"))
	j := journal(t, db, limits{keep: 20, slack: 5, unkept: 10})
	j.add(t, "e", 20)
	slow, stop := next(t, j, 3)
	defer stop()
	if e := slow(); e.Seq != 4 {
		t.Fatalf("%+v", e)
	}
	last := j.add(t, "e", 300).Seq
	list := j.list(t, 0)
	gap := list[0]
	if n := len(list) - 1; gap.Kind != Gap || n < 20 || n > 25 || gap.Seq != list[1].Seq-1 || gap.Fields["from"] != "1" || gap.Fields["to"] != fmt.Sprint(gap.Seq) {
		t.Errorf("%d events after %+v", n, gap)
	}
	// The slow reader finishes its page, then learns what it missed.
	var seen []Event
	for len(seen) == 0 || seen[len(seen)-1].Seq < last {
		seen = append(seen, slow())
	}
	at := Seq(4)
	gaps := 0
	for _, e := range seen {
		if e.Kind == Gap {
			gaps++
		} else if e.Seq != at+1 {
			t.Errorf("%d comes after %d", e.Seq, at)
		}
		at = e.Seq
	}
	if gaps != 1 {
		t.Errorf("%d gaps in %d events", gaps, len(seen))
	}
	if again := j.list(t, gap.Seq); again[0].Kind == Gap {
		t.Errorf("after the gap comes a gap: %+v", again[0])
	}
}

// next subscribes; each call of what it returns waits for an event.
func next(t testing.TB, j *Journal, after Seq) (func() Event, func()) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	events := make(chan Event)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e, err := range j.Read(ctx, after, true) {
			if err != nil {
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() Event {
			t.Helper()
			select {
			case e := <-events:
				return e
			case <-ended:
				t.Fatal("the subscription ended")
			}
			return Event{}
		}, func() {
			cancel()
			<-ended
		}
}

// A disk that takes its time delays nobody who follows: this one takes until all
// has come.
func TestFrozenDisk(t *testing.T) {
	db := database(t, filepath.Join(t.TempDir(), "db"))
	j := journal(t, db, limits{keep: 200, slack: 10, unkept: 50})
	j.add(t, "e", 60) // the reserve is refilled with each
	follow, stop := next(t, j, 60)
	defer stop()
	hold(t, db, func() {
		for i := range 50 {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			e, err := j.put(ctx, Event{Kind: "e"})
			if err == nil || e.Seq != Seq(61+i) {
				t.Fatalf("%d: %+v, %v", i, e, err)
			}
			if got := follow(); got.Seq != e.Seq {
				t.Fatalf("%d came, want %d", got.Seq, e.Seq)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if e, err := j.put(ctx, Event{Kind: "e"}); fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) == "" || e.Seq != 0 {
			t.Errorf("one too many: %+v, %v", e, err)
		}
	})
	if err := j.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := j.add(t, "e", 1); e.Seq != 111 {
		t.Errorf("afterwards: %+v", e)
	}
	if n := len(journal(t, db, ordinary).list(t, 0)); n != 111 {
		t.Errorf("%d events are on the disk", n)
	}
}
