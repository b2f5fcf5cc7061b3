package prompts

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/store"
)

const (
	// keepLimit is how long a store may take to store an answer: it may show a dialog.
	keepLimit = 2 * time.Minute
	// noteLimit is how long writing a prompt may take.
	noteLimit = 10 * time.Second
)

// Options configure a Broker.
type Options struct {
	DB *store.DB
	// Keep stores an answered secret.
	Keep   func(context.Context, secrets.Key, secrets.Value) error
	Record events.Recorder
	Log    *slog.Logger
}

// Broker holds the prompts of a home. Its methods may be called from any goroutine; their
// errors are *fault.Error.
//
// A prompt ends once: later answers get how it ended. Close cancels all prompts, and Open
// those of a daemon that was killed.
type Broker struct {
	Options
	rows  rows
	life  context.Context // ends with Close
	close context.CancelFunc

	mu      sync.Mutex // held for moments only
	waiting []*waiting // the oldest first
	ended   []Prompt   // the last ones, the oldest first
	changed notify.Notifier
}

// waiting is a prompt that waits. Broker.mu guards its state.
type waiting struct {
	Prompt
	turn chan struct{} // holds the token of the one who ends it, once it is on the disk
	done chan struct{} // closed when it has ended
}

// Open returns the broker of a home.
func Open(ctx context.Context, o Options) (*Broker, error) {
	b := &Broker{Options: o, rows: rows{o.DB}}
	lost, ended, err := b.rows.open(ctx, "the daemon ended")
	if err != nil {
		return nil, err
	}
	b.ended = ended
	for _, p := range lost {
		b.note(p)
	}
	b.life, b.close = context.WithCancel(context.WithoutCancel(ctx))
	return b, nil
}

// Close cancels all prompts.
func (b *Broker) Close() {
	b.close()
	for _, w := range b.all() {
		b.end(context.Background(), w, Cancelled, "the daemon ends")
	}
}

// Ask asks for a secret and returns when it is stored. It fails with fault.UserDenied if it
// is cancelled, with fault.Timeout without an answer, and with fault.Rejected if too many
// prompts wait. The end of the context cancels it.
func (b *Broker) Ask(ctx context.Context, q Question, by machine.Cause) error {
	q, err := q.check()
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	w := &waiting{
		Prompt: Prompt{
			ID: newID(), Kind: Secret, Secret: q.Secret, Name: q.Name, Text: q.Text, Asked: now, Deadline: now.Add(q.Wait), State: Waiting, Cause: string(by),
		},
		turn: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if err := b.add(ctx, w); err != nil {
		return err
	}
	late := time.NewTimer(q.Wait)
	defer late.Stop()
	select {
	case <-w.done:
	case <-late.C:
		b.end(context.Background(), w, Expired, "nobody has answered")
	case <-ctx.Done():
		b.end(context.Background(), w, Cancelled, "who asked has left")
	case <-b.life.Done():
		b.end(context.Background(), w, Cancelled, "the daemon ends")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return w.Err()
}

// add adds a prompt. It cannot end before it is on the disk.
func (b *Broker) add(ctx context.Context, w *waiting) error {
	defer func() { w.turn <- struct{}{} }()
	p := w.Prompt
	b.mu.Lock()
	of := 0
	for _, other := range b.waiting {
		if other.Secret.Agent == p.Secret.Agent {
			of++
		}
	}
	if of >= maxWaiting {
		b.mu.Unlock()
		return fault.Newf(fault.Rejected, "ask for", p.Secret.String(), "%d prompts of the agent wait already", of).
			Advise("Wait until they are answered: osaurus-sandbox prompt list")
	}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	// It is visible by now, so a caller that leaves must not interrupt this.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteLimit)
	defer cancel()
	err := b.rows.add(ctx, p)
	b.mu.Lock()
	if err != nil {
		w.State, w.Cause = Cancelled, "it could not be kept"
		b.waiting = without(b.waiting, w)
	}
	b.changed.Notify()
	b.mu.Unlock()
	if err == nil {
		b.note(p)
	}
	return err
}

func without(list []*waiting, w *waiting) []*waiting {
	return slices.DeleteFunc(list, func(other *waiting) bool { return other == w })
}

// Answer answers a prompt, and reports whether this ended it. If the secret cannot be
// stored, it fails and the prompt keeps waiting.
func (b *Broker) Answer(ctx context.Context, id ID, value secrets.Value, by machine.Cause) (Prompt, bool, error) {
	if err := value.Check(); err != nil {
		return Prompt{}, false, err
	}
	return b.settle(ctx, id, Answered, by, func(p Prompt) error {
		ctx, cancel := context.WithTimeout(ctx, keepLimit)
		defer cancel()
		defer context.AfterFunc(b.life, cancel)()
		return b.Keep(ctx, p.Secret, value)
	})
}

// Cancel cancels a prompt, and reports whether this ended it.
func (b *Broker) Cancel(ctx context.Context, id ID, by machine.Cause) (Prompt, bool, error) {
	return b.settle(ctx, id, Cancelled, by, func(Prompt) error { return nil })
}

// settle ends a prompt, unless it has ended or do fails.
func (b *Broker) settle(ctx context.Context, id ID, to State, by machine.Cause, do func(Prompt) error) (Prompt, bool, error) {
	w, ended, err := b.find(id)
	if err != nil || w == nil {
		return ended, false, err
	}
	select {
	case <-w.turn:
	case <-ctx.Done():
		return Prompt{}, false, fault.Newf(fault.KindOf(ctx.Err()), "answer prompt", string(id), "another answer is being kept")
	}
	defer func() { w.turn <- struct{}{} }()
	now := b.now(w)
	if now.State != Waiting {
		return now, false, nil
	}
	if err := do(now); err != nil {
		return now, false, err
	}
	b.finish(w, to, string(by))
	return b.now(w), true, nil
}

// end ends a prompt unless it has ended. It waits for an answer that is being stored.
func (b *Broker) end(ctx context.Context, w *waiting, to State, cause string) {
	_, _, _ = b.settle(ctx, w.ID, to, machine.Cause(cause), func(Prompt) error { return nil })
}

// finish ends a prompt. The caller holds its turn.
func (b *Broker) finish(w *waiting, to State, cause string) {
	b.mu.Lock()
	w.State, w.Cause, w.Ended = to, cause, time.Now().UTC()
	p := w.Prompt
	b.waiting = without(b.waiting, w)
	b.ended = append(b.ended, p)
	b.ended = b.ended[max(0, len(b.ended)-maxEnded):]
	b.changed.Notify()
	close(w.done)
	b.mu.Unlock()
	b.note(p)
	ctx, cancel := context.WithTimeout(context.Background(), noteLimit)
	defer cancel()
	if err := b.rows.end(ctx, p); err != nil {
		b.Log.Warn("that a prompt has ended could not be kept", "prompt", p.ID, "error", err)
	}
}

// Forget cancels the prompts of a deleted agent.
func (b *Broker) Forget(agent config.AgentID) {
	for _, w := range b.all() {
		if w.Secret.Agent == agent {
			b.end(context.Background(), w, Cancelled, "the agent was deleted")
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
	return slices.Clone(b.ended)
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
	for _, w := range b.waiting {
		list = append(list, w.Prompt)
	}
	return list, b.changed.Next()
}

// Get returns a prompt.
func (b *Broker) Get(id ID) (Prompt, error) {
	w, p, err := b.find(id)
	if w != nil {
		p = b.now(w)
	}
	return p, err
}

// find finds a prompt that waits, or one that has ended.
func (b *Broker) find(id ID) (*waiting, Prompt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.waiting {
		if w.ID == id {
			return w, Prompt{}, nil
		}
	}
	for _, p := range b.ended {
		if p.ID == id {
			return nil, p, nil
		}
	}
	return nil, Prompt{}, fault.Newf(fault.NotFound, "find prompt", string(id), "there is none").Advise("See `osaurus-sandbox prompt list`.")
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
	fields := map[string]string{"agent": string(p.Name), "id": string(p.Secret.Agent), "prompt": string(p.ID), "secret": string(p.Secret.Name)}
	if p.Secret.Plugin != "" {
		fields["plugin"] = string(p.Secret.Plugin)
	}
	b.Record.Note(events.Event{Kind: p.State.kind(), Cause: p.Cause, Fields: fields})
}
