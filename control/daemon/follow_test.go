package daemon_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"testing"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/store"
)

// backedBy is a client of a server over these alone, until the test ends.
func backedBy(t *testing.T, home config.Home, b control.Backing) *control.Client {
	t.Helper()
	b.Log, b.Close = slog.New(slog.DiscardHandler), b.Sandbox.Close
	server, err := control.NewServer(b)
	if err != nil {
		t.Fatal(err)
	}
	client, err := control.Connect(t.Context(), home, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		for _, end := range []func() error{server.Unlink, func() error { return b.Sandbox.Close(context.Background()) }, server.Close} {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	})
	return client
}

// kept is how many events a journal has from the beginning, each of a text that
// soon fills what lies on the way to a reader.
const kept = events.Keep

// serveJournal runs a server whose journal is the test's to write.
func serveJournal(t *testing.T) (*control.Client, *events.Journal) {
	t.Helper()
	home := newHome(t, "home")
	db, err := store.Open(t.Context(), home.Database())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	err = db.Write(t.Context(), "fill", func(tx *sql.Tx) error {
		_, err := tx.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < ?)
			INSERT INTO events SELECT i, 0, 'e', printf('%600s', 'x'), '{}' FROM n`, kept)
		if err == nil {
			_, err = tx.Exec("UPDATE event_marks SET reserved = ?", kept)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	journal, err := events.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	sandbox, err := machine.New(t.Context(), machine.Options{Home: home, Backend: &hosttest.Backend{}})
	if err != nil {
		t.Fatal(err)
	}
	client := backedBy(t, home, control.Backing{Sandbox: sandbox, Events: journal, Audit: audit.New(db)})
	return client, journal
}

func follow(t *testing.T, client *control.Client, after int64) *connect.ServerStreamForClient[controlpb.EventsResponse] {
	t.Helper()
	stream, err := client.Events(t.Context(), &controlpb.EventsRequest{After: after, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	return stream
}

func receive(t *testing.T, stream *connect.ServerStreamForClient[controlpb.EventsResponse]) *controlpb.EventsResponse {
	t.Helper()
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	return stream.Msg()
}

// A reader that stops reading delays nobody, neither the journal nor another
// reader: either would wait for ever. When it goes on it is told what it missed.
func TestSlowReaderGetsAGap(t *testing.T) {
	const (
		batches = 4
		batch   = 900 // fewer than may wait for the disk
	)
	client, journal := serveJournal(t)
	slow, quick := follow(t, client, 0), follow(t, client, kept-1)
	if first, last := receive(t, slow), receive(t, quick); first.Seq != 1 || last.Seq != kept {
		t.Fatalf("they begin with %d and %d", first.Seq, last.Seq)
	}
	for last := int64(kept); last < kept+batches*batch; {
		for range batch {
			e, err := journal.Note(events.Event{Kind: "e", Cause: "test"})
			if err != nil {
				t.Fatal(err)
			}
			got := receive(t, quick)
			if last++; got.Seq != last || e.Seq != events.Seq(last) {
				t.Fatalf("%d came of %d, want %d", got.Seq, e.Seq, last)
			}
		}
		if err := journal.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	at, gaps := int64(1), 0
	for after := 0; after < 10; { // it goes on for as long as one likes
		e := receive(t, slow)
		switch {
		case e.Kind == "gap":
			gaps++
			if e.Fields["from"] != fmt.Sprint(at+1) || e.Fields["to"] != fmt.Sprint(e.Seq) {
				t.Errorf("after %d: %v", at, e)
			}
		case e.Seq != at+1:
			t.Errorf("%d comes after %d", e.Seq, at)
		}
		at = e.Seq
		after += gaps
	}
	if gaps != 1 {
		t.Errorf("%d gaps", gaps)
	}
}
