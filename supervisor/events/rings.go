package events

import (
	"context"
	"iter"
	"slices"
	"sync"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
)

// Rings keep the newest items of each agent in memory and pass them to readers. Their methods may be called from any
// goroutine.
type Rings[T any] struct {
	keep  int
	known func(config.AgentID) bool

	mu  sync.Mutex // held for moments only
	all map[config.AgentID]*ring[T]
}

// ring has the items of an agent. Rings.mu guards it.
type ring[T any] struct {
	items   []T
	last    Seq // the number of the last item
	changed notify.Notifier
}

// NewRings returns empty rings, each for a number of items. It asks known whether an agent exists.
func NewRings[T any](keep int, known func(config.AgentID) bool) *Rings[T] {
	return &Rings[T]{keep: keep, known: known, all: map[config.AgentID]*ring[T]{}}
}

// Add adds an item of an agent, unless that was deleted. Items are numbered from 1.
func (r *Rings[T]) Add(agent config.AgentID, item func(Seq) T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known(agent) {
		return
	}
	of := r.of(agent)
	of.last++
	of.items = append(of.items, item(of.last))
	of.items = of.items[max(0, len(of.items)-r.keep):]
	of.changed.Notify()
}

// of returns the ring of an agent. The caller holds mu.
func (r *Rings[T]) of(agent config.AgentID) *ring[T] {
	if r.all[agent] == nil {
		r.all[agent] = &ring[T]{}
	}
	return r.all[agent]
}

// Forget drops the items of a deleted agent. Readers that follow it end with an error.
func (r *Rings[T]) Forget(agent config.AgentID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if of := r.all[agent]; of != nil {
		of.changed.Notify()
	}
	delete(r.all, agent)
}

// Read yields the items of an agent, the oldest first. With follow it continues with new ones until the context ends.
// A slow reader can miss some.
func (r *Rings[T]) Read(ctx context.Context, agent config.AgentID, follow bool) iter.Seq2[T, error] {
	return Follow(ctx, Seq(0), follow, func(_ context.Context, after Seq) ([]T, Seq, <-chan struct{}, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if err := r.Check(agent); err != nil {
			return nil, 0, nil, err
		}
		of := r.of(agent)
		unread := max(0, min(len(of.items), int(of.last-after)))
		return slices.Clone(of.items[len(of.items)-unread:]), of.last, of.changed.Next(), nil
	})
}

// Check fails with NotFound if there is no such agent.
func (r *Rings[T]) Check(agent config.AgentID) error {
	if r.known(agent) {
		return nil
	}
	return fault.New(fault.NotFound, "find agent", string(agent), nil).Advise("See `osaurus-sandbox agent list`.")
}
