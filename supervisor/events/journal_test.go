package events

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
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
	j, err := open(t.Context(), db, slog.New(slog.DiscardHandler), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sync.OnceFunc(j.Close))
	return j
}

var ordinary = limits{Keep, slack, maxQueue}

// add notes events, and returns the last number when they are on the disk.
func (j *Journal) add(t testing.TB, kind Kind, n int) Seq {
	t.Helper()
	for range n {
		j.Note(Event{Kind: kind, Cause: "test"})
		if err := j.writeQueue(); err != nil {
			t.Fatal(err)
		}
	}
	return j.Last()
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
	var log strings.Builder
	j, err := Open(t.Context(), db, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	long, then := strings.Repeat("é", maxText), time.Now().Add(-time.Minute)
	fields := map[string]string{"from": "stopped", "text": long, "bytes": "\xff\x00", "none": ""}
	j.Note(Event{Kind: "state", Cause: "you: \"up\"\n", Fields: fields, Time: then})
	clear(fields) // the caller's again
	j.Note(Event{Kind: "host_slept"})
	before := j.list(t, 0) // at once
	if len(before) != 2 || before[0].Seq != 1 || before[1].Seq != 2 || !before[0].Time.Equal(then) || before[0].Cause != "you: \"up\"\n" || len(before[0].Fields) != 3 {
		t.Fatalf("%+v", before)
	}
	if text := before[0].Fields["text"]; len(text) > maxText || !utf8.ValidString(text) || !strings.HasSuffix(text, "é…") {
		t.Errorf("%d bytes: …%q", len(text), text[len(text)-8:])
	}
	if d := time.Since(before[1].Time); d < 0 || d > time.Minute {
		t.Errorf("it was %v ago", d)
	}
	j.Note(Event{Kind: "last"})
	j.Close()
	if text := log.String(); !strings.Contains(text, "event=state") || !strings.Contains(text, "from=stopped") || !strings.Contains(text, "event=last") {
		t.Errorf("the log: %s", text)
	}
	db.Close()
	j = journal(t, database(t, path), ordinary)
	if list := j.list(t, 0); len(list) != 3 || !reflect.DeepEqual(list[:2], before) || list[2].Kind != "last" {
		t.Errorf("%+v", list)
	}
	if n := j.add(t, "more", 1); n != 4 {
		t.Errorf("after an orderly end numbers go on with %d", n)
	}
	if list := j.list(t, 3); len(list) != 1 || list[0].Seq != 4 {
		t.Errorf("after 3: %+v", list)
	}
	for _, foreign := range []Seq{-1, 5, 1 << 62} {
		for _, err := range j.Read(t.Context(), foreign, true) {
			if fault.KindOf(err) != fault.InvalidArgs {
				t.Errorf("after %d: %v", foreign, err)
			}
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
	j := journal(t, db, limits{keep: 20, slack: 5, queue: 10})
	j.add(t, "e", 20)
	slow, stop := next(t, j, 3)
	defer stop()
	if e := slow(); e.Seq != 4 {
		t.Fatalf("%+v", e)
	}
	last := j.add(t, "e", 300)
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
	ctx, cancel := context.WithCancel(t.Context())
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
			case <-time.After(timetest.Limit):
				t.Fatal("no event comes")
			}
			return Event{}
		}, func() {
			cancel()
			<-ended
		}
}

// Note does not wait for a disk that hangs. When the disk works again, the events are there, except for those
// that did not fit into the queue.
func TestFrozenDisk(t *testing.T) {
	db := database(t, filepath.Join(t.TempDir(), "db"))
	j := journal(t, db, limits{keep: 200, slack: 10, queue: 50})
	j.add(t, "e", 60)
	follow, stop := next(t, j, 60)
	defer stop()
	hold(t, db, func() {
		for range 51 {
			j.Note(Event{Kind: "e"})
		}
	})
	for n := range Seq(50) {
		if e := follow(); e.Seq != 61+n {
			t.Fatalf("%+v comes after %d", e, 60+n)
		}
	}
	if n := j.add(t, "e", 1); n != 111 {
		t.Errorf("afterwards: %d", n)
	}
}
