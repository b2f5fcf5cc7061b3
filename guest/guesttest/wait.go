package guesttest

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/guest"
)

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// waiter is a writer that tells when a word was written.
type waiter struct {
	word string
	seen chan struct{}
	once sync.Once
	mu   sync.Mutex
	buf  bytes.Buffer
}

func newWaiter(word string) *waiter { return &waiter{word: word, seen: make(chan struct{})} }

func (w *waiter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.buf.Write(b)
	if strings.Contains(w.buf.String(), w.word) {
		w.once.Do(func() { close(w.seen) })
	}
	return n, err
}

func (w *waiter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func (w *waiter) wait(ctx context.Context, t *testing.T) {
	t.Helper()
	select {
	case <-w.seen:
	case <-ctx.Done():
		t.Fatalf("no %q in %q", w.word, w)
	}
}

func mustInfo(ctx context.Context, t *testing.T, c *guest.Client) *guest.Info {
	t.Helper()
	i, err := c.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// waitIdle waits until no command runs.
func waitIdle(ctx context.Context, t *testing.T, c *guest.Client) {
	t.Helper()
	for {
		n := mustInfo(ctx, t, c).Running
		if n == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d commands still run", n)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
