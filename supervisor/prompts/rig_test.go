package prompts_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/prompts"
	"osaurus-sandbox/supervisor/store"
)

const (
	alice  = config.AgentID("0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E")
	bob    = config.AgentID("1B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E")
	canary = "canary-91b3e0"
	// patience is how long anything here may take before it counts as hanging.
	patience = 30 * time.Second
)

// rig is a broker and what it keeps and tells.
type rig struct {
	*prompts.Broker
	t    *testing.T
	path string
	db   *store.DB

	mu     sync.Mutex
	kept   []string
	events []events.Event
	refuse error         // what the store says
	hold   chan struct{} // not nil: the store waits for it, and says in busy that it does
	busy   chan struct{}
}

func (r *rig) Note(e events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *rig) keep(ctx context.Context, k secrets.Key, v secrets.Value) error {
	r.mu.Lock()
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		r.busy <- struct{}{}
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return r.refuse
	}
	r.kept = append(r.kept, k.String()+" = "+v.Reveal())
	return nil
}

// will has the store answer with an error, or not.
func (r *rig) will(refuse error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = refuse
}

// told are the kinds of events and their causes.
func (r *rig) told() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, e := range r.events {
		list = append(list, string(e.Kind)+" by "+e.Cause)
	}
	return strings.Join(list, "; ")
}

func (r *rig) storeHas() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.kept, "; ")
}

func newRig(t *testing.T, path string) *rig {
	t.Helper()
	before := runtime.NumGoroutine()
	db, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, path: path, db: db, busy: make(chan struct{}, 1)}
	if r.Broker, err = prompts.Open(t.Context(), prompts.Options{DB: db, Keep: r.keep, Record: r, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		for over := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(over) {
				t.Errorf("%d goroutines, before %d", runtime.NumGoroutine(), before)
				return
			}
		}
	})
	return r
}

func someRig(t *testing.T) *rig { return newRig(t, filepath.Join(t.TempDir(), "db")) }

func question(name string) prompts.Question {
	return prompts.Question{Secret: secrets.Key{Agent: alice, Name: config.SecretName(name)}, Name: "alice", Text: "for the report"}
}

// ask asks while the test goes on, and returns the prompt when it waits.
func (r *rig) ask(ctx context.Context, q prompts.Question) (prompts.Prompt, <-chan error) {
	r.t.Helper()
	before := len(r.List())
	outcome := make(chan error, 1)
	go func() { outcome <- r.Ask(ctx, q, "somebody") }()
	for over := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if list := r.List(); len(list) > before && strings.Count(r.told(), "asked") > 0 {
			return list[len(list)-1], outcome
		}
		select {
		case err := <-outcome:
			r.t.Fatalf("%s: %v", q.Secret, err)
		default:
		}
		if time.Now().After(over) {
			r.t.Fatal("it is not asked")
		}
	}
}

// await waits for what is to come.
func await[T any](t *testing.T, what string, from <-chan T) (it T) {
	t.Helper()
	select {
	case it = <-from:
	case <-time.After(patience):
		t.Fatalf("not in time: %s", what)
	}
	return it
}

// ended waits for what who asked gets.
func ended(t *testing.T, outcome <-chan error, kind fault.Kind) {
	t.Helper()
	err := await(t, "who asked is told", outcome)
	if err == nil && kind != "" || err != nil && (fault.KindOf(err) != kind || fault.AdviceOf(err) == "") {
		t.Errorf("who asked got %v, want %s", err, kind)
	}
}

func value(t *testing.T, text string) secrets.Value {
	t.Helper()
	v, err := secrets.ParseValue(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
