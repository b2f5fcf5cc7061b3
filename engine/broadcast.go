package engine

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
)

// Broadcast copies a command's output to any number of readers, up to a limit.
//
// # Readers that do not keep up
//
// Each reader has a queue of QueueBytes. Like a full pipe, a full queue blocks the
// command, and with it the other readers. A reader that takes nothing for Patience is
// dropped: it gets the rest of its queue and then a Timeout. The first reader's queue
// exists from the start, so the same holds before anyone reads.
type Broadcast struct {
	limit int64 // in bytes; 0 is no limit

	// turn is held while a chunk is handed out, so that every reader sees both
	// streams in the same order.
	turn sync.Mutex

	mu        sync.Mutex
	readers   []*Reader
	first     *Reader // until it was given out
	passed    int64
	truncated bool
	closed    bool
	closing   chan struct{}
}

const (
	// QueueBytes bounds a reader's queue: enough for a short pause, and small enough for a
	// hundred commands at once.
	QueueBytes = 1 << 20
	// chunkBytes is counted for each chunk in addition to its data, so that a queue of
	// single bytes is bounded too.
	chunkBytes = 64
	// Patience is how long the command waits for a reader that takes nothing. Longer
	// pauses mean that the reader hangs.
	Patience = 2 * time.Second
)

// NewBroadcast returns a Broadcast of at most limit bytes; 0 is no limit.
func NewBroadcast(limit int64) *Broadcast {
	b := &Broadcast{limit: limit, closing: make(chan struct{})}
	b.first = &Reader{broadcast: b}
	b.readers = []*Reader{b.first}
	return b
}

// Writer returns the writer of one stream. A Write never fails: output
// beyond the limit or without readers is dropped, so that the command continues. The
// caller may reuse the data.
func (b *Broadcast) Writer(s Stream) io.Writer { return &streamWriter{b, s} }

type streamWriter struct {
	b      *Broadcast
	stream Stream
}

func (w *streamWriter) Write(data []byte) (int, error) {
	b := w.b
	b.turn.Lock()
	defer b.turn.Unlock()
	kept, readers := b.admit(data)
	for _, r := range readers {
		r.put(Chunk{w.stream, kept})
	}
	return len(data), nil
}

// admit copies the part of data within the limit and returns its readers.
func (b *Broadcast) admit(data []byte) ([]byte, []*Reader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit > 0 && int64(len(data)) > b.limit-b.passed {
		data, b.truncated = data[:b.limit-b.passed], true
	}
	if b.closed || len(data) == 0 {
		return nil, nil
	}
	b.passed += int64(len(data))
	return slices.Clone(data), slices.Clone(b.readers)
}

// Join returns a reader of everything that is written from now on. The first reader
// also gets all earlier output.
func (b *Broadcast) Join() *Reader {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.first; r != nil {
		b.first = nil
		return r
	}
	r := &Reader{broadcast: b}
	if b.closed {
		r.end(io.EOF)
	} else {
		b.readers = append(b.readers, r)
	}
	return r
}

// Truncated reports whether the limit dropped anything.
func (b *Broadcast) Truncated() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.truncated
}

// Close ends every reader after its queue and drops later writes. It may be called more
// than once, and during a Write.
func (b *Broadcast) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.closed = true
	close(b.closing)
	for _, r := range b.readers {
		r.end(io.EOF)
	}
	b.readers = nil
}

func (b *Broadcast) forget(r *Reader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readers = slices.DeleteFunc(b.readers, func(other *Reader) bool { return other == r })
}

// Reader is a reader of a Broadcast. The caller must read it to its end or close it.
type Reader struct {
	broadcast *Broadcast
	changed   notify.Notifier

	mu     sync.Mutex
	queue  []Chunk
	behind int   // size of queue
	ended  error // what Next returns after the queue
}

// Next waits for the next chunk. It returns io.EOF at the end of the output, and a fault
// if the reader was dropped or ctx ends.
func (r *Reader) Next(ctx context.Context) (Chunk, error) {
	for {
		changed := r.changed.Next()
		if chunk, ok, err := r.take(); ok || err != nil {
			return chunk, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Chunk{}, contextFault("read output", ctx)
		}
	}
}

func (r *Reader) take() (chunk Chunk, ok bool, ended error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return Chunk{}, false, r.ended
	}
	chunk = r.queue[0]
	r.queue[0] = Chunk{}
	r.queue = r.queue[1:]
	r.behind -= chunkBytes + len(chunk.Data)
	r.changed.Notify()
	return chunk, true, nil
}

// Close ends the reader. Next then returns io.EOF.
func (r *Reader) Close() {
	r.broadcast.forget(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue, r.behind, r.ended = nil, 0, io.EOF
	r.changed.Notify()
}

// put adds a chunk, and waits for room up to Patience.
func (r *Reader) put(c Chunk) {
	var patience <-chan time.Time
	for {
		changed := r.changed.Next()
		if r.fits(c) {
			return
		}
		if patience == nil {
			timer := time.NewTimer(Patience)
			defer timer.Stop()
			patience = timer.C
		}
		select {
		case <-changed:
		case <-r.broadcast.closing:
			return
		case <-patience:
			r.broadcast.forget(r)
			r.end(fault.Newf(fault.Timeout, "read output", "", "the reader did not keep up and was dropped").
				Advise("Read faster, or ask for less output."))
			return
		}
	}
}

// fits adds the chunk if the queue has room. An empty queue takes any chunk.
func (r *Reader) fits(c Chunk) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return true // the chunk is dropped
	}
	size := chunkBytes + len(c.Data)
	if len(r.queue) > 0 && r.behind+size > QueueBytes {
		return false
	}
	r.queue = append(r.queue, c)
	r.behind += size
	r.changed.Notify()
	return true
}

func (r *Reader) end(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		r.ended = why
	}
	r.changed.Notify()
}

// contextFault returns the fault of a wait that ctx ended.
func contextFault(op string, ctx context.Context) error {
	return fault.New(fault.KindOf(ctx.Err()), op, "", context.Cause(ctx))
}
