package prompts

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
)

// keepLimit is how long a store may take to store an answer: it may show a dialog.
const keepLimit = 2 * time.Minute

// Options configure a Broker.
type Options struct {
	// Keep stores an answered secret.
	Keep   func(context.Context, secrets.Key, secrets.Value) error
	Record events.Recorder
}

// Broker holds the prompts of a home, in memory. Its methods may be called from any goroutine;
// their errors are *fault.Error.
//
// A prompt ends once: later answers get how it ended.
type Broker struct {
	Options
	life  context.Context // ends with Close
	close context.CancelFunc

	mu      sync.Mutex // held for moments only
	waiting []*waiting // the oldest first
	ended   []*waiting // the last ones, the oldest first
	changed notify.Notifier
}

// waiting is a prompt that waits or has ended. Broker.mu guards its state.
type waiting struct {
	Prompt
	turn chan struct{} // holds a token: the right to end it
	done chan struct{} // closed when it has ended
}

// New returns a broker without prompts.
func New(o Options) *Broker {
	b := &Broker{Options: o}
	b.life, b.close = context.WithCancel(context.Background())
	return b
}

// Close cancels all prompts.
func (b *Broker) Close() {
	b.close()
	for _, w := range b.all() {
		b.end(w, Cancelled, "the daemon ends")
	}
}

// Ask asks a person and returns the answer once it is stored. The answer to a question for a secret
// is empty. It fails with fault.UserDenied if it is cancelled or an approval is refused, with
// fault.Timeout without an answer, and with fault.Rejected if too many prompts wait. The end of the
// context cancels it.
func (b *Broker) Ask(ctx context.Context, q Question, by machine.Cause) (Choice, error) {
	q, err := q.check()
	if err != nil {
		return "", err
	}
	now := time.Now().UTC()
	w := &waiting{
		Prompt: Prompt{ID: newID(), Question: q, Asked: now, Deadline: now.Add(q.Wait), State: Waiting, Cause: string(by)},
		turn:   make(chan struct{}, 1), done: make(chan struct{}),
	}
	w.turn <- struct{}{}
	if err := b.add(w); err != nil {
		return "", err
	}
	late := time.NewTimer(q.Wait)
	defer late.Stop()
	select {
	case <-w.done:
	case <-late.C:
		b.end(w, Expired, "nobody answered")
	case <-ctx.Done():
		b.end(w, Cancelled, "the caller disconnected")
	case <-b.life.Done():
		b.end(w, Cancelled, "the daemon ends")
	}
	ended := b.now(w)
	return ended.Choice, ended.Err()
}

// add adds a prompt, unless too many of its agent wait.
func (b *Broker) add(w *waiting) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	agents := 0
	for _, other := range b.waiting {
		if other.Secret.Agent == w.Secret.Agent && other.Kind == w.Kind {
			agents++
		}
	}
	if agents >= maxWaiting {
		return fault.Newf(fault.Rejected, "ask for", w.Subject(), "%d prompts of the agent are waiting already", agents).
			Advise("Wait until they are answered: osaurus-sandbox prompt list")
	}
	b.waiting = append(b.waiting, w)
	b.changed.Notify()
	b.note(w.Prompt)
	return nil
}

// Answer answers a prompt for a secret, and reports whether this ended it. If the secret cannot
// be stored, it fails and the prompt keeps waiting.
func (b *Broker) Answer(ctx context.Context, id ID, value secrets.Value, by machine.Cause) (Prompt, bool, error) {
	if err := value.Check(); err != nil {
		return Prompt{}, false, err
	}
	return b.settle(ctx, id, Answered, by, func(ctx context.Context, w *waiting) error {
		if w.Kind != KindSecret {
			return otherKind(id, "it does not ask for a secret", w.Kind)
		}
		return b.Keep(ctx, w.Secret, value)
	})
}

// Choose answers a prompt that is not for a secret like Answer.
func (b *Broker) Choose(ctx context.Context, id ID, c Choice, by machine.Cause) (Prompt, bool, error) {
	return b.settle(ctx, id, Answered, by, func(ctx context.Context, w *waiting) error {
		if !slices.Contains(w.Kind.Choices(), c) {
			return otherKind(id, "it asks for something else", w.Kind)
		}
		if err := w.Keep(ctx, c); err != nil {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		w.Choice = c
		return nil
	})
}

func otherKind(id ID, why string, asked Kind) error {
	advice := "Answer with the secret."
	if list := asked.Choices(); len(list) > 0 {
		advice = fmt.Sprintf("Answer one of %s.", list)
	}
	return fault.New(fault.InvalidArgs, "answer prompt", string(id), errors.New(why)).Advise(advice)
}

// Cancel cancels a prompt, and reports whether this ended it.
func (b *Broker) Cancel(ctx context.Context, id ID, by machine.Cause) (Prompt, bool, error) {
	return b.settle(ctx, id, Cancelled, by, nil)
}

// settle ends a prompt, unless it has ended or keep fails, which may be nil.
func (b *Broker) settle(ctx context.Context, id ID, to State, by machine.Cause, keep func(context.Context, *waiting) error) (Prompt, bool, error) {
	w, err := b.find(id)
	if err != nil {
		return Prompt{}, false, err
	}
	select {
	case <-w.turn:
	case <-ctx.Done():
		return Prompt{}, false, fault.Newf(fault.KindOf(ctx.Err()), "answer prompt", string(id), "another answer is being stored")
	}
	defer func() { w.turn <- struct{}{} }()
	now := b.now(w)
	if now.State != Waiting {
		return now, false, nil
	}
	if keep != nil {
		ctx, cancel := context.WithTimeout(ctx, keepLimit)
		defer cancel()
		defer context.AfterFunc(b.life, cancel)()
		if err := keep(ctx, w); err != nil {
			return now, false, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	w.State, w.Cause, w.Ended = to, string(by), time.Now().UTC()
	b.waiting = slices.DeleteFunc(b.waiting, func(other *waiting) bool { return other == w })
	b.ended = append(b.ended, w)
	b.ended = b.ended[max(0, len(b.ended)-maxEnded):]
	b.changed.Notify()
	b.note(w.Prompt)
	close(w.done)
	return w.Prompt, true, nil
}

// end ends a prompt unless it has ended. It waits for an answer that is being stored.
func (b *Broker) end(w *waiting, to State, cause string) {
	_, _, _ = b.settle(context.Background(), w.ID, to, machine.Cause(cause), nil)
}

// Forget cancels the prompts of a deleted agent.
func (b *Broker) Forget(agent config.AgentID) {
	for _, w := range b.all() {
		if w.Secret.Agent == agent {
			b.end(w, Cancelled, "the agent was deleted")
		}
	}
}

// List returns the prompts that wait, oldest first.
func (b *Broker) List() []Prompt {
	list, _ := b.look()
	return list
}

// Ended returns the last prompts that have ended, oldest first.
func (b *Broker) Ended() []Prompt {
	b.mu.Lock()
	defer b.mu.Unlock()
	return promptsOf(b.ended)
}

// Watch yields the prompts that wait, now and after each change, until the context or the
// broker ends.
func (b *Broker) Watch(ctx context.Context) iter.Seq[[]Prompt] {
	return func(yield func([]Prompt) bool) {
		for {
			list, changed := b.look()
			if !yield(list) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			case <-b.life.Done():
				return
			}
		}
	}
}

func (b *Broker) look() (list []Prompt, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return promptsOf(b.waiting), b.changed.Next()
}

func promptsOf(list []*waiting) (prompts []Prompt) {
	for _, w := range list {
		prompts = append(prompts, w.Prompt)
	}
	return prompts
}

// Get returns a prompt.
func (b *Broker) Get(id ID) (Prompt, error) {
	w, err := b.find(id)
	if err != nil {
		return Prompt{}, err
	}
	return b.now(w), nil
}

// find finds a prompt that waits, or one that has ended.
func (b *Broker) find(id ID) (*waiting, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range slices.Concat(b.waiting, b.ended) {
		if w.ID == id {
			return w, nil
		}
	}
	return nil, fault.Newf(fault.NotFound, "find prompt", string(id), "no such prompt").Advise("See `osaurus-sandbox prompt list`.")
}

func (b *Broker) now(w *waiting) Prompt {
	b.mu.Lock()
	defer b.mu.Unlock()
	return w.Prompt
}

func (b *Broker) all() []*waiting {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.waiting)
}

// note records the event of a prompt's state.
func (b *Broker) note(p Prompt) {
	what := "approval"
	if p.Kind == KindNetwork {
		what = "network"
	}
	fields := map[string]string{
		"agent": string(p.Name), "id": string(p.Secret.Agent), "prompt": string(p.ID),
		"secret": string(p.Secret.Name), "plugin": string(p.Secret.Plugin), what: p.What, "choice": string(p.Choice),
	}
	b.Record.Note(events.Event{Kind: p.State.event(), Cause: p.Cause, Fields: fields})
}
