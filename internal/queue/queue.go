// Package queue has those who want the same thing wait for each other, first come, first served.
package queue

import (
	"context"
	"sync"
)

// Queues give one turn at a time for each key, to who asked first. The zero value
// is ready.
type Queues[K comparable] struct {
	mu    sync.Mutex
	lines map[K]*line
}

// line is those who have a turn or wait for one: as many as count says.
type line struct {
	turn  chan struct{} // has room for who has the turn
	count int
}

// Take waits for the turn of a key; who waits is told of it before, by waiting,
// which may be nil. The turn must be given back.
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
	case l.turn <- struct{}{}: // senders to a channel are served in their order
		return func() {
			<-l.turn
			q.leave(key, l)
		}, nil
	case <-ctx.Done():
		q.leave(key, l)
		return nil, context.Cause(ctx)
	}
}

// leave forgets a line that nobody stands in.
func (q *Queues[K]) leave(key K, l *line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l.count--; l.count == 0 {
		delete(q.lines, key)
	}
}
