package audit

import (
	"context"
	"time"
)

const (
	// followWithin is how long an entry that nobody waits for may wait for the next one: one
	// transaction is half of two. Between two commands of a script there is less.
	followWithin = 25 * time.Millisecond
	// followLimit is how long the disk may then take.
	followLimit = 10 * time.Second
	// maxPending bounds what waits, should many commands end at once.
	maxPending = 256
)

// pending is an entry that waits to be recorded.
type pending struct {
	Entry
	failed func(error)
}

// Follow adds an entry that nobody waits for, which says how something ended that was recorded
// when it began: it is on the disk with the next entry, or a moment later. What is lost with
// a daemon that is killed in this moment is only that: nobody knows how it ended. If it
// cannot be recorded, failed is told.
func (l *Log) Follow(e Entry, failed func(error)) {
	e, err := e.check()
	if err != nil {
		failed(err)
		return
	}
	e.Time = time.Now().UTC()
	l.mu.Lock()
	l.pending = append(l.pending, pending{e, failed})
	n := len(l.pending)
	l.mu.Unlock()
	switch {
	case n >= maxPending:
		l.flush()
	case n == 1:
		time.AfterFunc(followWithin, l.flush)
	}
}

func (l *Log) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), followLimit)
	defer cancel()
	if !l.Flush(ctx) {
		time.AfterFunc(followWithin, l.flush)
	}
}

// Flush records what waits, or tells those who told Follow why not. It reports whether it had its
// turn before its context ended.
func (l *Log) Flush(ctx context.Context) bool {
	if l.take(ctx) != nil {
		return false
	}
	defer l.give()
	waiting := l.takePending()
	if len(waiting) == 0 {
		return true
	}
	all := make([]Entry, len(waiting))
	for i, p := range waiting {
		all[i] = p.Entry
	}
	// They are others' than whose context this may be.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), followLimit)
	defer cancel()
	if _, err := l.write(ctx, all); err != nil {
		for _, p := range waiting {
			p.failed(err)
		}
	}
	return true
}

func (l *Log) takePending() []pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.pending
	l.pending = nil
	return all
}

// putBack has entries wait again that could not be recorded with another.
func (l *Log) putBack(some []pending) {
	if len(some) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(some, l.pending...)
	time.AfterFunc(followWithin, l.flush)
}
