package egress

import (
	"context"
	"maps"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor/prompts"
)

// answerLasts is how long the answer "once", or no answer, holds for a destination. Most clients have
// given up when a person answers, so the agent can try again during this time. A program that
// retries does not ask again.
const answerLasts = 2 * time.Minute

// AskOptions configure an Asker.
type AskOptions struct {
	Policies *Policies
	Prompts  *prompts.Broker
}

// Asker asks people about flows that no rule names. Its methods may be called from any goroutine.
type Asker struct {
	AskOptions
	life context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup

	mu        sync.Mutex
	questions map[destination]*question
}

// destination is what one question is about.
type destination struct {
	subject network.Subject
	rule    string // the narrowest that allows it; one for a name alone covers all its ports
}

// question is a question that waits for a person, even if its callers have left, or whose answer still holds.
type question struct {
	done  chan struct{} // closed when it is answered
	allow bool          // valid after done
	until time.Time     // when the answer ends; zero while it waits
}

// NewAsker returns an asker without questions. Close it before the broker of prompts and the agents.
func NewAsker(o AskOptions) *Asker {
	a := &Asker{AskOptions: o, questions: map[destination]*question{}}
	a.life, a.end = context.WithCancel(context.Background())
	return a
}

// Close ends all questions: nothing is allowed.
func (a *Asker) Close() {
	a.mu.Lock()
	a.end()
	a.mu.Unlock()
	a.work.Wait()
}

// Ask asks a person whether a subject may reach a target, and reports whether it may. Callers that
// ask the same join one question. A question outlives callers whose context ends.
func (a *Asker) Ask(ctx context.Context, s network.Subject, t policy.Target) bool {
	q := a.find(s, t)
	if q == nil {
		return false
	}
	select {
	case <-q.done:
		return q.allow
	case <-ctx.Done():
		return false
	}
}

// find returns the question about a target, or nil if a person could not allow it.
func (a *Asker) find(s network.Subject, t policy.Target) *question {
	rule, ok := policy.Policy{}.RuleFor(t)
	if !ok {
		return nil
	}
	known := []destination{{s, rule.String()}}
	if t.Name != "" {
		known = append(known, destination{s, config.NetworkRule{Host: t.Name}.String()})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(a.questions, func(_ destination, q *question) bool { return !q.until.IsZero() && !now.Before(q.until) })
	for _, d := range known {
		if q := a.questions[d]; q != nil {
			return q
		}
	}
	if a.life.Err() != nil {
		return nil
	}
	q := &question{done: make(chan struct{})}
	a.questions[known[0]] = q
	a.work.Go(func() { a.ask(known[0], t, rule, q) })
	return q
}

// ask asks a person and answers the question.
func (a *Asker) ask(d destination, t policy.Target, rule config.NetworkRule, q *question) {
	choice, err := a.put(d.subject, t, rule)
	a.mu.Lock()
	defer a.mu.Unlock()
	q.allow, q.until = err == nil && choice.Allows(), time.Now().Add(answerLasts)
	// A question that was never put has no answer. To keep one for each would take memory without bound.
	if kind := fault.KindOf(err); err != nil && kind != fault.UserDenied && kind != fault.Timeout {
		delete(a.questions, d)
	}
	close(q.done)
}

// put puts a question to a person.
func (a *Asker) put(s network.Subject, t policy.Target, rule config.NetworkRule) (prompts.Choice, error) {
	agent, err := a.Policies.Agents.Get(string(s.Agent))
	if err != nil {
		return "", err
	}
	text := Destination(t)
	if t.Name != "" && t.Addr.IsValid() {
		text += " (" + t.Addr.String() + ")"
	}
	return a.Prompts.Ask(a.life, prompts.Question{
		Kind: prompts.KindNetwork, Secret: secrets.Key{Agent: s.Agent, Plugin: s.Plugin}, Name: agent.Name, What: text,
		Keep: func(ctx context.Context, c prompts.Choice) error { return a.keep(ctx, s, rule, c) },
	}, "the gateway")
}

// keep stores an answer that holds for longer than once.
func (a *Asker) keep(ctx context.Context, s network.Subject, rule config.NetworkRule, c prompts.Choice) error {
	rule.Deny = !c.Allows()
	// The person was asked about a public address. The name may get a local one later.
	rule.Public = c.Allows() && rule.Host != "" && rule.Host != config.Localhost
	switch c {
	case prompts.Session:
		a.Policies.allowSession(s, rule)
	case prompts.Always, prompts.Never:
		_, err := a.Policies.Agents.Set(ctx, string(s.Agent), map[string]string{RulesKey + "+": rule.String()}, "the answer to a prompt")
		return err
	}
	return nil
}
