package prompts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/fault"
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
	patience = 20 * time.Second
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

// ended waits for what who asked gets.
func ended(t *testing.T, outcome <-chan error, kind fault.Kind) {
	t.Helper()
	select {
	case err := <-outcome:
		if err == nil && kind != "" || err != nil && (fault.KindOf(err) != kind || fault.AdviceOf(err) == "") {
			t.Errorf("who asked got %v, want %s", err, kind)
		}
	case <-time.After(patience):
		t.Fatal("who asked waits still")
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

// An answer goes into the store, once, and nowhere else.
func TestAnswer(t *testing.T) {
	r := someRig(t)
	p, outcome := r.ask(t.Context(), question("TOKEN"))
	if p.State != prompts.Waiting || p.Secret.Name != "TOKEN" || p.Text != "for the report" || p.Deadline.Sub(p.Asked) != prompts.UsualWait {
		t.Errorf("%+v", p)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	took := 0
	for i := range 20 { // all at once, and half of them say no
		all.Go(func() {
			var taken bool
			var err error
			if i%2 == 0 {
				_, taken, err = r.Answer(t.Context(), p.ID, value(t, fmt.Sprint(canary, i)), "first")
			} else {
				_, taken, err = r.Cancel(t.Context(), p.ID, "first")
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if taken {
				took++
			}
		})
	}
	all.Wait()
	now, err := r.Get(p.ID)
	if err != nil || took != 1 {
		t.Fatal(now, err, took)
	}
	if kept := r.storeHas(); (now.State == prompts.Answered) != (strings.Count(kept, canary) == 1) || now.State == prompts.Cancelled && kept != "" {
		t.Errorf("it is %s, and kept is %q", now.State, kept)
	}
	if now.State == prompts.Answered {
		ended(t, outcome, "")
	} else {
		ended(t, outcome, fault.UserDenied)
	}
	if again, taken, err := r.Answer(t.Context(), p.ID, value(t, "later"), "second"); taken || err != nil || again.State != now.State || strings.Contains(r.storeHas(), "later") {
		t.Errorf("a second time: %+v, %v, %v", again, taken, err)
	}
	if told := r.told(); told != "prompt.asked by somebody; prompt."+string(now.State)+" by first" {
		t.Errorf("the events are %s", told)
	}
	if len(r.List()) != 0 || len(r.Ended()) != 1 {
		t.Errorf("%v wait, %v have ended", r.List(), r.Ended())
	}
	files, err := filepath.Glob(r.path + "*")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte(canary)) {
			t.Errorf("the value is in %s, %v", file, err)
		}
	}
	if strings.Contains(fmt.Sprintf("%+v", r.events), canary) {
		t.Errorf("the value is in an event: %+v", r.events)
	}
}

// What ends a prompt, and what who asked gets.
func TestEnds(t *testing.T) {
	r := someRig(t)
	p, outcome := r.ask(t.Context(), question("A"))
	if now, taken, err := r.Cancel(t.Context(), p.ID, "me"); !taken || err != nil || now.State != prompts.Cancelled || now.Cause != "me" || now.Ended.IsZero() {
		t.Errorf("%+v, %v, %v", now, taken, err)
	}
	ended(t, outcome, fault.UserDenied)

	q := question("B")
	q.Wait = 20 * time.Millisecond
	ended(t, func() <-chan error { c := make(chan error, 1); c <- r.Ask(t.Context(), q, "x"); return c }(), fault.Timeout)

	ctx, leave := context.WithCancel(t.Context())
	_, outcome = r.ask(ctx, question("C"))
	leave()
	ended(t, outcome, fault.UserDenied)

	_, outcome = r.ask(t.Context(), question("D"))
	r.Forget(bob)
	if len(r.List()) != 1 {
		t.Error("another agent's prompt was cancelled")
	}
	r.Forget(alice)
	ended(t, outcome, fault.UserDenied)

	_, outcome = r.ask(t.Context(), question("E"))
	r.Close()
	ended(t, outcome, fault.UserDenied)
	var states []prompts.State
	for _, p := range r.Ended() {
		states = append(states, p.State)
	}
	if fmt.Sprint(states) != "[cancelled expired cancelled cancelled cancelled]" {
		t.Error(states)
	}
	if _, _, err := r.Cancel(t.Context(), "00000000", "me"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("one that never was: %v", err)
	}
}

// What cannot be kept is told to whoever answered, and the prompt goes on waiting.
func TestStoreThatFails(t *testing.T) {
	r := someRig(t)
	p, outcome := r.ask(t.Context(), question("TOKEN"))
	r.will(secrets.Locked.Fault("keep secret", "it", nil))
	if _, taken, err := r.Answer(t.Context(), p.ID, value(t, canary), "me"); taken || !errors.Is(err, secrets.Locked) {
		t.Errorf("%v, %v", taken, err)
	}
	if _, _, err := r.Answer(t.Context(), p.ID, secrets.Value{}, "me"); fault.KindOf(err) != fault.InvalidArgs {
		t.Errorf("no value: %v", err)
	}
	if now, err := r.Get(p.ID); err != nil || now.State != prompts.Waiting {
		t.Errorf("%+v, %v", now, err)
	}
	r.will(nil)
	if _, taken, err := r.Answer(t.Context(), p.ID, value(t, canary), "me"); !taken || err != nil {
		t.Errorf("%v, %v", taken, err)
	}
	ended(t, outcome, "")
}

// While an answer is being kept, the prompt ends in no other way; and an end of
// the daemon does not wait for a store that hangs.
func TestSlowStore(t *testing.T) {
	r := someRig(t)
	r.hold = make(chan struct{})
	q := question("TOKEN")
	q.Wait = 2 * time.Second // enough for the answer to come
	p, outcome := r.ask(t.Context(), q)
	answered := make(chan bool, 1)
	go func() {
		_, taken, err := r.Answer(t.Context(), p.ID, value(t, canary), "me")
		answered <- taken && err == nil
	}()
	<-r.busy
	time.Sleep(time.Until(p.Deadline) + 50*time.Millisecond)
	if now, err := r.Get(p.ID); err != nil || now.State != prompts.Waiting {
		t.Errorf("%+v, %v", now, err)
	}
	close(r.hold)
	if !<-answered {
		t.Error("the answer was not taken")
	}
	ended(t, outcome, "")

	r.mu.Lock()
	r.hold = make(chan struct{})
	r.mu.Unlock()
	p, outcome = r.ask(t.Context(), question("HANGS"))
	go func() {
		_, taken, _ := r.Answer(t.Context(), p.ID, value(t, canary), "me")
		answered <- taken
	}()
	<-r.busy
	r.Close()
	if <-answered {
		t.Error("it was taken")
	}
	ended(t, outcome, fault.UserDenied)
}

// A daemon that was killed leaves prompts that are cancelled when the next opens.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	first := newRig(t, path)
	p, _ := first.ask(t.Context(), question("TOKEN"))
	copied := filepath.Join(t.TempDir(), "db") // as it is on the disk at this moment
	for _, end := range []string{"", "-wal"} {
		text, err := os.ReadFile(path + end)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied+end, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		next := newRig(t, copied)
		now, err := next.Get(p.ID)
		if err != nil || now.State != prompts.Cancelled || now.Secret != p.Secret || now.Name != p.Name || now.Text != p.Text || now.Cause != "the daemon ended" {
			t.Errorf("%+v, %v", now, err)
		}
		if _, taken, err := next.Answer(t.Context(), p.ID, value(t, canary), "me"); taken || err != nil {
			t.Errorf("it is answered: %v, %v", taken, err)
		}
		next.Close()
		next.db.Close()
	}
}

func TestOrderAndBounds(t *testing.T) {
	r := someRig(t)
	var outcomes []<-chan error
	for i := range 8 {
		_, outcome := r.ask(t.Context(), question(fmt.Sprintf("S%d", i)))
		outcomes = append(outcomes, outcome)
	}
	if err := r.Ask(t.Context(), question("ONE_MORE"), "x"); fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
		t.Errorf("one more: %v", err)
	}
	other := question("OTHER")
	other.Secret.Agent = bob
	_, outcome := r.ask(t.Context(), other)
	outcomes = append(outcomes, outcome)
	list := r.List()
	for i, p := range list[:8] {
		if string(p.Secret.Name) != fmt.Sprintf("S%d", i) {
			t.Errorf("%d is %s", i, p.Secret)
		}
	}
	for _, p := range list {
		if _, _, err := r.Cancel(t.Context(), p.ID, "me"); err != nil {
			t.Error(err)
		}
	}
	for _, outcome := range outcomes {
		ended(t, outcome, fault.UserDenied)
	}

	for name, change := range map[string]func(*prompts.Question){
		"a long text": func(q *prompts.Question) { q.Text = strings.Repeat("x", prompts.MaxText+1) },
		"a long wait": func(q *prompts.Question) { q.Wait = prompts.MaxWait + 1 },
		"no wait":     func(q *prompts.Question) { q.Wait = -1 },
		"no name":     func(q *prompts.Question) { q.Secret.Name = "" },
		"an odd name": func(q *prompts.Question) { q.Secret.Name = "a.b" },
	} {
		q := question("TOKEN")
		change(&q)
		if err := r.Ask(t.Context(), q, "x"); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range 120 { // far more than are kept
		p, outcome := r.ask(t.Context(), question(fmt.Sprintf("T%d", i)))
		r.Cancel(t.Context(), p.ID, "me")
		ended(t, outcome, fault.UserDenied)
	}
	if n := len(r.Ended()); n != 100 {
		t.Errorf("%d are kept", n)
	}
}

// What an agent says about a prompt does nothing to the terminal that shows it.
func TestTextIsReadable(t *testing.T) {
	r := someRig(t)
	q := question("TOKEN")
	q.Text = "a\x1b[2J\x1b]0;x\a b\r\n\u202ec\xff\u009b"
	p, outcome := r.ask(t.Context(), q)
	if want := "a·[2J·]0;x· b·\n·c··"; p.Text != want {
		t.Errorf("%q, want %q", p.Text, want)
	}
	r.Cancel(t.Context(), p.ID, "me")
	ended(t, outcome, fault.UserDenied)
}

// Who watches sees what waits, at once and whenever it is something else.
func TestWatch(t *testing.T) {
	r := someRig(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	seen := make(chan int, 100)
	var watching sync.WaitGroup
	watching.Go(func() {
		for list := range r.Watch(ctx) {
			seen <- len(list)
		}
	})
	await := func(want int) {
		t.Helper()
		for {
			select {
			case n := <-seen:
				if n == want {
					return
				}
			case <-ctx.Done():
				t.Fatalf("%d are never seen", want)
			}
		}
	}
	await(0)
	p, outcome := r.ask(ctx, question("A"))
	await(1)
	_, other := r.ask(ctx, question("B"))
	await(2)
	r.Cancel(ctx, p.ID, "me")
	await(1)
	r.Close()
	watching.Wait()
	ended(t, outcome, fault.UserDenied)
	ended(t, other, fault.UserDenied)
}
