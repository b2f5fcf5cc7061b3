package prompts_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/prompts"
)

const (
	alice  = config.AgentID("0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E")
	bob    = config.AgentID("1B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E")
	canary = "canary-91b3e0"
	// patience is how long anything here may take before it counts as hanging.
	patience = timetest.Limit
)

// rig is a broker with a store and a journal.
type rig struct {
	*prompts.Broker
	t *testing.T

	mu     sync.Mutex
	kept   []string
	events []events.Event
	refuse error         // the store's answer
	hold   chan struct{} // if not nil, the store waits for it
	busy   chan struct{} // receives when the store waits
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

// answer sets the store's answer.
func (r *rig) answer(refuse error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = refuse
}

// told returns the kinds of events and their causes.
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

func newRig(t *testing.T) *rig {
	t.Helper()
	before := runtime.NumGoroutine()
	r := &rig{t: t, busy: make(chan struct{}, 1)}
	r.Broker = prompts.New(prompts.Options{Keep: r.keep, Record: r})
	t.Cleanup(func() {
		r.Close()
		timetest.Eventually(t, "its goroutines end", func() bool { return runtime.NumGoroutine() <= before })
	})
	return r
}

func question(name string) prompts.Question {
	return prompts.Question{Secret: secrets.Key{Agent: alice, Name: config.SecretName(name)}, Name: "alice", Text: "for the report"}
}

// ask asks in the background and returns the prompt.
func (r *rig) ask(ctx context.Context, q prompts.Question) (prompts.Prompt, <-chan error) {
	r.t.Helper()
	before := len(r.List())
	outcome := make(chan error, 1)
	go func() {
		_, err := r.Ask(ctx, q, "somebody")
		outcome <- err
	}()
	timetest.Eventually(r.t, "it is asked", func() bool { return len(r.List()) > before || len(outcome) > 0 })
	list := r.List()
	if len(list) <= before {
		r.t.Fatalf("%s: %v", q.Secret, <-outcome)
	}
	return list[len(list)-1], outcome
}

func await[T any](t *testing.T, what string, from <-chan T) (it T) {
	t.Helper()
	select {
	case it = <-from:
	case <-time.After(patience):
		t.Fatalf("not in time: %s", what)
	}
	return it
}

// ended waits for the result of Ask.
func ended(t *testing.T, outcome <-chan error, kind fault.Kind) {
	t.Helper()
	err := await(t, "Ask returns", outcome)
	if err == nil && kind != "" || err != nil && (fault.KindOf(err) != kind || fault.AdviceOf(err) == "") {
		t.Errorf("Ask returned %v, want %s", err, kind)
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
