// Package queue serializes work by key, first come, first served.
package queue

import (
	"context"
	"slices"
	"sync"
)

// Queues gives out one turn at a time for each key, in the order of the requests.
// The zero value is ready to use.
type Queues[K comparable] struct {
	mu      sync.Mutex
	waiting map[K][]chan struct{} // closed when it is a caller's turn; the first caller has the turn
}

// Take waits for the turn of a key. If it has to wait, it calls waiting, unless
// that is nil, with the number of callers ahead. The caller must call give.
func (q *Queues[K]) Take(ctx context.Context, key K, waiting func(ahead int)) (give func(), err error) {
	turn := make(chan struct{})
	q.mu.Lock()
	if q.waiting == nil {
		q.waiting = map[K][]chan struct{}{}
	}
	ahead := len(q.waiting[key])
	q.waiting[key] = append(q.waiting[key], turn)
	q.mu.Unlock()
	if ahead == 0 {
		return func() { q.leave(key, turn) }, nil
	}
	if waiting != nil {
		waiting(ahead)
	}
	select {
	case <-turn:
		return func() { q.leave(key, turn) }, nil
	case <-ctx.Done():
		q.leave(key, turn)
		return nil, context.Cause(ctx)
	}
}

// leave removes a caller. If it had the turn, the next one gets it.
func (q *Queues[K]) leave(key K, turn chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.waiting[key]
	i := slices.Index(all, turn)
	all = slices.Delete(all, i, i+1)
	switch {
	case len(all) == 0:
		delete(q.waiting, key)
		return
	case i == 0:
		close(all[0])
	}
	q.waiting[key] = all
}
