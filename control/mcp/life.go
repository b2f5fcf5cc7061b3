package mcp

import (
	"context"
	"sync"
)

// life is the lifetime of a server. Its background work ends with it.
type life struct {
	context.Context
	cancel context.CancelFunc

	mu   sync.Mutex
	work sync.WaitGroup
}

func newLife(ctx context.Context) *life {
	l := &life{}
	l.Context, l.cancel = context.WithCancel(ctx)
	return l
}

// do starts background work, unless the server has ended.
func (l *life) do(work func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Err() == nil {
		l.work.Go(work)
	}
}

// end cancels the work and waits for its end.
func (l *life) end() {
	l.mu.Lock()
	l.cancel() // do starts nothing any more
	l.mu.Unlock()
	l.work.Wait()
}
