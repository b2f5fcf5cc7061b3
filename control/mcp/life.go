package mcp

import (
	"context"
	"sync"
)

// life is as long as a server serves. What goes on by itself ends with it.
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

// do has something go on by itself, unless the end has come.
func (l *life) do(work func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Err() == nil {
		l.work.Go(work)
	}
}

// end ends what goes on, and returns when it has.
func (l *life) end() {
	l.mu.Lock()
	l.cancel() // nothing begins any more
	l.mu.Unlock()
	l.work.Wait()
}
