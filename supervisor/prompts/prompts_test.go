package prompts_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor/prompts"
)

// An answer is stored once, and shows up nowhere else.
func TestAnswer(t *testing.T) {
	r := newRig(t)
	p, outcome := r.ask(t.Context(), question("TOKEN"))
	if p.State != prompts.Waiting || p.Secret.Name != "TOKEN" || p.Text != "for the report" || p.Deadline.Sub(p.Asked) != prompts.UsualWait {
		t.Errorf("%+v", p)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	took := 0
	for i := range 20 { // half of them cancel
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
	if strings.Contains(fmt.Sprintf("%+v", r.events), canary) {
		t.Errorf("the value is in an event: %+v", r.events)
	}
}

// A prompt ends in several ways, each of which Ask reports.
func TestEnds(t *testing.T) {
	r := newRig(t)
	p, outcome := r.ask(t.Context(), question("A"))
	if now, taken, err := r.Cancel(t.Context(), p.ID, "me"); !taken || err != nil || now.State != prompts.Cancelled || now.Cause != "me" || now.Ended.IsZero() {
		t.Errorf("%+v, %v, %v", now, taken, err)
	}
	ended(t, outcome, fault.UserDenied)

	q := question("B")
	q.Wait = 20 * time.Millisecond
	_, err := r.Ask(t.Context(), q, "x")
	c := make(chan error, 1)
	c <- err
	ended(t, c, fault.Timeout)

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

// If an answer cannot be stored, Answer fails and the prompt keeps waiting.
func TestStoreThatFails(t *testing.T) {
	r := newRig(t)
	p, outcome := r.ask(t.Context(), question("TOKEN"))
	r.answer(secrets.Locked.Fault("keep secret", "it", nil))
	if _, taken, err := r.Answer(t.Context(), p.ID, value(t, canary), "me"); taken || !errors.Is(err, secrets.Locked) {
		t.Errorf("%v, %v", taken, err)
	}
	if _, _, err := r.Answer(t.Context(), p.ID, secrets.Value{}, "me"); fault.KindOf(err) != fault.InvalidArgs {
		t.Errorf("no value: %v", err)
	}
	if now, err := r.Get(p.ID); err != nil || now.State != prompts.Waiting {
		t.Errorf("%+v, %v", now, err)
	}
	r.answer(nil)
	if _, taken, err := r.Answer(t.Context(), p.ID, value(t, canary), "me"); !taken || err != nil {
		t.Errorf("%v, %v", taken, err)
	}
	ended(t, outcome, "")
}

// While an answer is being stored, nothing else ends the prompt. Close does not wait for a store
// that hangs.
func TestSlowStore(t *testing.T) {
	r := newRig(t)
	r.hold = make(chan struct{})
	ctx, leave := context.WithCancel(t.Context())
	p, outcome := r.ask(ctx, question("TOKEN"))
	answered := make(chan bool, 1)
	go func() {
		_, taken, err := r.Answer(t.Context(), p.ID, value(t, canary), "me")
		answered <- taken && err == nil
	}()
	await(t, "the store is asked", r.busy)
	leave()
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, taken, err := r.Cancel(brief, p.ID, "me"); taken || fault.KindOf(err) != fault.Timeout {
		t.Errorf("it was cancelled: %v, %v", taken, err)
	}
	if now, err := r.Get(p.ID); err != nil || now.State != prompts.Waiting {
		t.Errorf("%+v, %v", now, err)
	}
	close(r.hold)
	if !await(t, "the answer is kept", answered) {
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
	await(t, "the store is asked", r.busy)
	r.Close()
	if await(t, "the answer is given up", answered) {
		t.Error("it was taken")
	}
	ended(t, outcome, fault.UserDenied)
}

func TestOrderAndBounds(t *testing.T) {
	r := newRig(t)
	var outcomes []<-chan error
	for i := range 8 {
		_, outcome := r.ask(t.Context(), question(fmt.Sprintf("S%d", i)))
		outcomes = append(outcomes, outcome)
	}
	if _, err := r.Ask(t.Context(), question("ONE_MORE"), "x"); fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
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
		if _, err := r.Ask(t.Context(), q, "x"); fault.KindOf(err) != fault.InvalidArgs {
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

// The text of a prompt cannot control the terminal that shows it.
func TestTextIsReadable(t *testing.T) {
	r := newRig(t)
	q := question("TOKEN")
	q.Text = "a\x1b[2J\x1b]0;x\a b\r\n\u202ec\xff\u009b"
	p, outcome := r.ask(t.Context(), q)
	if want := "a·[2J·]0;x· b·\n·c··"; p.Text != want {
		t.Errorf("%q, want %q", p.Text, want)
	}
	r.Cancel(t.Context(), p.ID, "me")
	ended(t, outcome, fault.UserDenied)
}

// Watch yields the waiting prompts at once and after each change.
func TestWatch(t *testing.T) {
	r := newRig(t)
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

// A question about the network is answered by a choice. If that cannot be stored, it keeps waiting.
func TestNetwork(t *testing.T) {
	r := newRig(t)
	var kept []prompts.Choice
	full := fault.Newf(fault.InvalidArgs, "set", "rules", "too many")
	q := prompts.Question{Kind: prompts.KindNetwork, Secret: secrets.Key{Agent: alice, Plugin: "rss"}, Name: "alice", What: "api.example.org:443\x1b[2J", Keep: func(_ context.Context, c prompts.Choice) error {
		if kept = append(kept, c); len(kept) == 1 {
			return full
		}
		return nil
	}}
	type outcome struct {
		choice prompts.Choice
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		c, err := r.Ask(t.Context(), q, "the gateway")
		done <- outcome{c, err}
	}()
	timetest.Eventually(t, "it is asked", func() bool { return len(r.List()) == 1 })
	p := r.List()[0]
	if p.Kind != prompts.KindNetwork || p.What != "api.example.org:443·[2J" || p.Secret.Agent != alice || p.Secret.Plugin != "rss" || p.Deadline.Sub(p.Asked) != prompts.UsualWait {
		t.Errorf("%+v", p)
	}
	if _, taken, err := r.Answer(t.Context(), p.ID, value(t, canary), "me"); taken || fault.KindOf(err) != fault.InvalidArgs || r.storeHas() != "" {
		t.Errorf("a secret as an answer: %v, %v", taken, err)
	}
	if _, taken, err := r.Choose(t.Context(), p.ID, prompts.Always, "me"); taken || !errors.Is(err, full) {
		t.Errorf("%v, %v", taken, err)
	}
	if now, taken, err := r.Choose(t.Context(), p.ID, prompts.Never, "me"); !taken || err != nil || now.State != prompts.Answered || now.Choice != prompts.Never {
		t.Errorf("%+v, %v, %v", now, taken, err)
	}
	if got := <-done; got.choice != prompts.Never || got.err != nil || got.choice.Allows() {
		t.Errorf("%+v", got)
	}
	r.mu.Lock()
	if last := r.events[len(r.events)-1]; last.Kind != "prompt.answered" || last.Fields["network"] != p.What || last.Fields["choice"] != "never" || last.Fields["plugin"] != "rss" {
		t.Errorf("%+v", last)
	}
	r.mu.Unlock()

	// One kind does not keep the other from being asked.
	ctx, leave := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() { _, _ = r.Ask(ctx, q, "the gateway") })
	}
	timetest.Eventually(t, "they are asked", func() bool { return len(r.List()) == 8 })
	if _, err := r.Ask(ctx, q, "the gateway"); fault.KindOf(err) != fault.Rejected {
		t.Errorf("one more: %v", err)
	}
	secret, asked := r.ask(t.Context(), question("TOKEN"))
	if _, taken, err := r.Choose(t.Context(), secret.ID, prompts.Once, "me"); taken || fault.KindOf(err) != fault.InvalidArgs {
		t.Errorf("a choice for a secret: %v, %v", taken, err)
	}
	r.Cancel(t.Context(), secret.ID, "me")
	ended(t, asked, fault.UserDenied)
	leave()
	asking.Wait()
	for _, wrong := range []string{"", strings.Repeat("x", 10_000)} {
		q.What = wrong
		if _, err := r.Ask(t.Context(), q, "x"); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if _, err := prompts.ParseChoice("Once"); fault.KindOf(err) != fault.InvalidArgs {
		t.Error(err)
	}
}

// An approval is a yes that was kept. All else is a refusal.
func TestApproval(t *testing.T) {
	r := newRig(t)
	full := fault.Newf(fault.Rejected, "mount", "it", "too many")
	ask := func(choice prompts.Choice, keep error) (error, error) {
		done := make(chan error, 1)
		go func() {
			_, err := r.Ask(t.Context(), prompts.Question{
				Secret: secrets.Key{Agent: alice}, Name: "alice", Kind: prompts.KindFolder, What: "to mount \x1b[2J/src", Text: "to build\x07 it",
				Keep: func(_ context.Context, c prompts.Choice) error {
					if c != choice {
						t.Errorf("%s is kept", c)
					}
					return keep
				},
			}, "a tool")
			done <- err
		}()
		timetest.Eventually(t, "it is asked", func() bool { return len(r.List()) == 1 })
		p := r.List()[0]
		if p.Kind != prompts.KindFolder || p.What != "to mount ·[2J/src" || p.Text != "to build· it" || p.Subject() != p.What {
			t.Errorf("%+v", p)
		}
		for _, wrong := range []prompts.Choice{prompts.Once, prompts.Always, prompts.Never} {
			if _, taken, err := r.Choose(t.Context(), p.ID, wrong, "me"); taken || fault.KindOf(err) != fault.InvalidArgs {
				t.Errorf("%s: %v, %v", wrong, taken, err)
			}
		}
		if _, taken, err := r.Answer(t.Context(), p.ID, value(t, canary), "me"); taken || fault.KindOf(err) != fault.InvalidArgs || r.storeHas() != "" {
			t.Errorf("a secret as an answer: %v, %v", taken, err)
		}
		_, _, err := r.Choose(t.Context(), p.ID, choice, "me")
		if err != nil {
			r.Cancel(t.Context(), p.ID, "me")
		}
		return <-done, err
	}
	if asked, err := ask(prompts.Yes, nil); asked != nil || err != nil {
		t.Errorf("yes: %v, %v", asked, err)
	}
	if asked, err := ask(prompts.No, nil); fault.KindOf(asked) != fault.UserDenied || err != nil {
		t.Errorf("no: %v, %v", asked, err)
	}
	if asked, err := ask(prompts.Yes, full); fault.KindOf(asked) != fault.UserDenied || !errors.Is(err, full) {
		t.Errorf("what cannot be kept: %v, %v", asked, err)
	}
	if _, err := r.Ask(t.Context(), prompts.Question{Kind: prompts.KindReview, Secret: secrets.Key{Agent: alice}, What: "it", Text: strings.Repeat("x", prompts.MaxText+1)}, "x"); fault.KindOf(err) != fault.InvalidArgs {
		t.Errorf("a long text: %v", err)
	}
}
