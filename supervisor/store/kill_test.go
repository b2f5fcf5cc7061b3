package store_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/store"
)

const (
	victim = "OSAURUS_STORE_VICTIM" // names the database that a child is to write
	kills  = 50
)

// TestMain makes this test program one that appends until it is killed, where
// asked to.
func TestMain(m *testing.M) {
	if path := os.Getenv(victim); path != "" {
		write(path)
	}
	os.Exit(m.Run())
}

// write says on standard output what it was told is on the disk.
func write(path string) {
	ctx := context.Background()
	db, err := store.Open(ctx, path)
	must(err)
	journal, err := events.Open(ctx, db, slog.New(slog.DiscardHandler))
	must(err)
	log := audit.New(db)
	var said sync.Mutex
	say := func(what string, number int64) {
		said.Lock()
		defer said.Unlock()
		fmt.Println(what, number)
	}
	go func() {
		for e, err := range journal.Read(ctx, journal.Last(), true) { // each but the first once the one before was read
			must(err)
			say("event", int64(e.Seq))
			journal.Note(events.Event{Kind: "e", Cause: "test"})
		}
	}()
	for range 2 {
		journal.Note(events.Event{Kind: "e", Cause: "test"})
	}
	for {
		e, err := log.Record(ctx, audit.Entry{Client: "test", Action: "a", Outcome: audit.OK})
		must(err)
		say("entry", int64(e.Seq))
	}
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// What a program was told is written is there, at whatever moment it is
// killed, and the audit proves itself.
func TestKilledAtAnyMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	acknowledged := map[string]map[int64]bool{"event": {}, "entry": {}}
	deadly := 0
	for round := range kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), victim+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		words := rand.N(60) // it is killed after so many: also a slow program writes something
		if round%5 == 0 {
			cmd.Process.Kill() // or while it opens
		}
		said := bufio.NewReader(out)
		before := deadly
		for {
			line, err := said.ReadString('\n')
			if err == io.EOF { // half a line says nothing
				break
			}
			var what string
			var number int64
			if _, err := fmt.Sscanln(strings.TrimSpace(line), &what, &number); err != nil || acknowledged[what] == nil {
				t.Fatalf("the program says %q", line)
			}
			if acknowledged[what][number] {
				t.Errorf("%s %d is given twice", what, number)
			}
			acknowledged[what][number] = true
			if deadly == before {
				deadly++
			}
			if words--; words == -1 {
				time.AfterFunc(rand.N(5*time.Millisecond), func() { cmd.Process.Kill() }) // in the midst of the next
			}
		}
		cmd.Wait()
		if round%10 == 9 {
			check(t, path, acknowledged)
		}
	}
	t.Logf("%d of %d were killed while they wrote", deadly, kills)
	for what, numbers := range acknowledged {
		if t.Logf("%s: %d", what, len(numbers)); len(numbers) == 0 {
			t.Errorf("of %s nothing was acknowledged", what)
		}
	}
	if deadly < kills/2 {
		t.Error("too few were killed while they wrote")
	}
}

func check(t *testing.T, path string, acknowledged map[string]map[int64]bool) {
	t.Helper()
	ctx := t.Context()
	db, err := store.Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	proof, err := audit.New(db).Verify(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for n := range acknowledged["entry"] {
		if n > int64(proof.Entries) {
			t.Errorf("entry %d is lost", n)
		}
	}
	journal, err := events.Open(ctx, db, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	there, forgotten := map[int64]bool{}, int64(0)
	for e, err := range journal.Read(ctx, 0, false) {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Kind == events.Gap: // a program writes more than is kept while the test stands still
			forgotten = int64(e.Seq)
		default:
			there[int64(e.Seq)] = true
		}
	}
	if forgotten > 0 && len(there) < events.Keep {
		t.Errorf("%d events are forgotten, and %d kept", forgotten, len(there))
	}
	for n := range acknowledged["event"] {
		if n > forgotten && !there[n] {
			t.Errorf("event %d is lost", n)
		}
	}
}
