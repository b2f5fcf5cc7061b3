// Package queue serializes work by key, first come, first served.
package queue

import (
	"context"
	"sync"
)

// Queues gives out one turn at a time for each key, in the order of the requests.
// The zero value is ready to use.
type Queues[K comparable] struct {
	mu    sync.Mutex
	lines map[K]*line
}

// line is the queue of one key.
type line struct {
	turn  chan struct{} // holds an element while somebody has the turn
	count int           // callers who have the turn or wait for it
}

// Take waits for the turn of a key. If it has to wait, it calls waiting, unless
// that is nil, with the number of callers ahead. The caller must call give.
func (q *Queues[K]) Take(ctx context.Context, key K, waiting func(ahead int)) (give func(), err error) {
	q.mu.Lock()
	if q.lines == nil {
		q.lines = map[K]*line{}
	}
	l := q.lines[key]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		q.lines[key] = l
	}
	ahead := l.count
	l.count++
	q.mu.Unlock()
	if ahead > 0 && waiting != nil {
		waiting(ahead)
	}
	select {
	case l.turn <- struct{}{}: // a channel serves senders in order
		return func() {
			<-l.turn
			q.leave(key, l)
		}, nil
	case <-ctx.Done():
		q.leave(key, l)
		return nil, context.Cause(ctx)
	}
}

// leave removes an empty queue.
func (q *Queues[K]) leave(key K, l *line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l.count--; l.count == 0 {
		delete(q.lines, key)
	}
}
