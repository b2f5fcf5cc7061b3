package events

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestModel lets many append, follow, fall behind, leave and come back at
// once, and holds what each reader saw against what was appended.
func TestModel(t *testing.T) {
	const writers, readers, each = 6, 8, 120
	goroutines := runtime.NumGoroutine()
	db := database(t, filepath.Join(t.TempDir(), "db"))
	j := journal(t, db, limits{keep: 60, slack: 10, unkept: 40})

	var (
		mu       sync.Mutex
		appended = map[Seq]string{}
		wait     sync.WaitGroup
		writing  sync.WaitGroup
	)
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				cause := fmt.Sprint(w, "/", i)
				ctx, cancel := context.WithCancel(t.Context())
				if rand.N(4) == 0 {
					cancel() // it is shown, and somebody else keeps it
				}
				e, err := j.put(ctx, Event{Kind: "e", Cause: cause})
				cancel()
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				if e.Seq == 0 {
					continue // refused: too many waited
				}
				mu.Lock()
				if appended[e.Seq] != "" {
					t.Errorf("%d was given twice", e.Seq)
				}
				appended[e.Seq] = cause
				mu.Unlock()
			}
		})
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	seen := make([][]Event, readers)
	for r := range readers {
		wait.Go(func() {
			// Each reads in several sittings, and resumes where it was.
			for at := Seq(0); ; {
				sitting := rand.N(100) + 1
				for e, err := range j.Subscribe(ctx, at) {
					if err != nil {
						t.Error(err)
						return
					}
					seen[r] = append(seen[r], e)
					at = e.Seq
					if e.Kind == "end" {
						return
					}
					if r%2 == 0 && rand.N(10) == 0 {
						time.Sleep(rand.N(10 * time.Millisecond)) // too slow
					}
					if sitting--; sitting == 0 {
						break
					}
				}
			}
		})
	}
	writing.Wait()
	end := j.add(t, "end", 1)
	wait.Wait()

	for r, events := range seen {
		at, gaps := Seq(0), 0
		for _, e := range events {
			switch {
			case e.Kind == Gap:
				gaps++
				if e.Seq <= at || e.Fields["from"] != fmt.Sprint(at+1) {
					t.Errorf("reader %d at %d: %+v", r, at, e)
				}
			case e.Seq != at+1: // in one life of a journal no number is left out
				t.Errorf("reader %d: %d comes after %d", r, e.Seq, at)
			case e.Kind == "e" && appended[e.Seq] != e.Cause:
				t.Errorf("reader %d: %+v, want %s", r, e, appended[e.Seq])
			}
			at = e.Seq
		}
		if at != end.Seq {
			t.Errorf("reader %d ends at %d, want %d", r, at, end.Seq)
		}
		t.Logf("reader %d: %d events, %d gaps", r, len(events)-gaps, gaps)
	}
	if kept := keptIn(t, db); len(kept) < 60 || len(kept) > 70+40 || !slices.Contains(kept, end.Seq) {
		t.Errorf("%d events are kept", len(kept))
	}
	j.Close(t.Context())
	db.Close()
	for deadline := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > goroutines && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines are left", n-goroutines)
	}
}
