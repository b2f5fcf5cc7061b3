package daemon_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/supervisor"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/supervisor/store"
)

// serveJournal runs a server whose journal is the test's to write.
func serveJournal(t *testing.T) (*control.Client, *events.Journal) {
	t.Helper()
	home := newHome(t, "home")
	db, err := store.Open(t.Context(), home.Database())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	journal, err := events.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	sandbox, err := supervisor.New(t.Context(), supervisor.Options{Home: home, Backend: &hosttest.Backend{}})
	if err != nil {
		t.Fatal(err)
	}
	server, err := control.NewServer(control.Backing{
		Sandbox: sandbox, Events: journal, Audit: audit.New(db), Log: slog.New(slog.DiscardHandler), Close: sandbox.Close,
	})
	if err != nil {
		t.Fatal(err)
	}
	client, err := control.Connect(t.Context(), home, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		for _, end := range []func() error{server.Unlink, func() error { return sandbox.Close(context.Background()) }, server.Close} {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	})
	return client, journal
}

func follow(t *testing.T, client *control.Client) *connect.ServerStreamForClient[controlpb.EventsResponse] {
	t.Helper()
	stream, err := client.Events(t.Context(), connect.NewRequest(&controlpb.EventsRequest{Follow: true}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	return stream
}

// A reader that stops reading delays nobody, neither the journal nor another
// reader. When it goes on it is told what it missed.
func TestSlowReaderGetsAGap(t *testing.T) {
	const (
		bound = 50 * time.Millisecond
		batch = 500
	)
	client, journal := serveJournal(t)
	long := strings.Repeat("x", 1900) // so that what lies on the way to a reader is soon full
	note := func() events.Event {
		t.Helper()
		e, err := journal.Note(events.Event{Kind: "e", Cause: long})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	receive := func(s *connect.ServerStreamForClient[controlpb.EventsResponse]) *controlpb.EventsResponse {
		t.Helper()
		if !s.Receive() {
			t.Fatal(s.Err())
		}
		return s.Msg()
	}
	first := note()
	slow, quick := follow(t, client), follow(t, client)
	for _, s := range []*connect.ServerStreamForClient[controlpb.EventsResponse]{slow, quick} {
		if got := receive(s); got.Seq != int64(first.Seq) {
			t.Fatalf("%d came first, want %d", got.Seq, first.Seq)
		}
	}
	last, late := first.Seq, 0
	for noted := 0; noted < events.Keep+6*batch; noted += batch {
		for range batch {
			e := note()
			if last++; e.Seq != last {
				t.Fatalf("%d comes after %d", e.Seq, last-1)
			}
			if got := receive(quick); got.Seq != int64(last) {
				t.Fatalf("%d came, want %d", got.Seq, last)
			} else if time.Since(got.Time.AsTime()) > bound {
				late++
			}
		}
		if err := journal.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if late > int(last)/100 {
		t.Errorf("%d of %d events took longer than %v", late, last, bound)
	}
	at, gaps := int64(first.Seq), 0
	for at < int64(last) {
		e := receive(slow)
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
	}
	if gaps != 1 {
		t.Errorf("%d gaps", gaps)
	}
}
