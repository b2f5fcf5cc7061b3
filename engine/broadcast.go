package engine

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/internal/fault"
)

// Broadcast hands a command's output to any number of readers, and never more
// of it than was asked for.
//
// # Readers that do not keep up
//
// Each reader has a queue of QueueBytes. Like a pipe, a full one makes the
// command wait, and with it the other readers: so nobody loses output because a
// program is faster than the program that reads it. But a reader that makes no
// room within Patience is left behind: it gets what is in its queue and then an
// error of kind Timeout, and nobody waits for it again. The first reader's queue
// is there from the start, so the same holds while nobody reads at all.
type Broadcast struct {
	limit int64 // bytes handed on at most; 0: no limit

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
	// QueueBytes is what a reader may be behind: enough for a reader that does
	// something else for a moment, little enough for a hundred commands at once.
	QueueBytes = 1 << 20
	// chunkBytes is what a chunk takes beside its data, so that a queue of single
	// bytes is no larger than others.
	chunkBytes = 64
	// Patience is how long the command waits for a reader that takes nothing.
	// Programs that read are busy for milliseconds; longer is a program that hangs.
	Patience = 2 * time.Second
)

// NewBroadcast returns a Broadcast that hands on at most limit bytes; 0 is no
// limit.
func NewBroadcast(limit int64) *Broadcast {
	b := &Broadcast{limit: limit, closing: make(chan struct{})}
	b.first = b.newReader()
	b.readers = []*Reader{b.first}
	return b
}

// Writer returns where a backend writes what comes from one of the streams. A
// Write never fails: what nobody may or can have any more is dropped, so that
// the command can go on. Data may be used again afterwards.
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

// admit copies the part of data that is within the limit, and says who gets it.
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

// Join returns a reader of what is written from now on; the first one that is
// asked for reads everything.
func (b *Broadcast) Join() *Reader {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.first; r != nil {
		b.first = nil
		return r
	}
	r := b.newReader()
	if b.closed {
		r.end(io.EOF)
	} else {
		b.readers = append(b.readers, r)
	}
	return r
}

// Truncated says whether anything was dropped because of the limit.
func (b *Broadcast) Truncated() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.truncated
}

// Close ends every reader after what is in its queue, and drops what is written
// later. It may be called often, also while a Write waits.
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

func (b *Broadcast) newReader() *Reader {
	return &Reader{broadcast: b, filled: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
}

// Reader is one reader of a Broadcast. Whoever has one reads it to its end, or
// closes it.
type Reader struct {
	broadcast *Broadcast
	filled    chan struct{} // has an element after something was put in, or the end came
	taken     chan struct{} // has an element after something was taken out, or the end came

	mu     sync.Mutex
	queue  []Chunk
	behind int   // what queue takes
	ended  error // what Next says after the queue
}

// Next waits for the next chunk. At the end of the output it says io.EOF; a
// reader that was left behind and a ctx that ends are faults.
func (r *Reader) Next(ctx context.Context) (Chunk, error) {
	for {
		if chunk, ok, err := r.take(); ok || err != nil {
			return chunk, err
		}
		select {
		case <-r.filled:
		case <-ctx.Done():
			return Chunk{}, contextFault("read output", ctx)
		}
	}
}

func (r *Reader) take() (chunk Chunk, ok bool, ended error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		if r.ended != nil {
			wake(r.filled) // for others that wait in Next
		}
		return Chunk{}, false, r.ended
	}
	chunk = r.queue[0]
	r.queue[0] = Chunk{}
	r.queue = r.queue[1:]
	r.behind -= chunkBytes + len(chunk.Data)
	if len(r.queue) > 0 || r.ended != nil {
		wake(r.filled)
	}
	wake(r.taken)
	return chunk, true, nil
}

// Close leaves the stream. What Next says afterwards is io.EOF.
func (r *Reader) Close() {
	r.broadcast.forget(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue, r.behind, r.ended = nil, 0, io.EOF
	wake(r.filled)
	wake(r.taken)
}

// put adds a chunk, and waits for room up to Patience.
func (r *Reader) put(c Chunk) {
	var patience <-chan time.Time
	for !r.fits(c) {
		if patience == nil {
			timer := time.NewTimer(Patience)
			defer timer.Stop()
			patience = timer.C
		}
		select {
		case <-r.taken:
		case <-r.broadcast.closing:
			return
		case <-patience:
			r.broadcast.forget(r)
			r.end(fault.Newf(fault.Timeout, "read output", "", "this reader did not keep up, and was left behind").
				Advise("Read faster, or ask for less output."))
			return
		}
	}
}

// fits adds the chunk if there is room for it, which there always is in an empty
// queue.
func (r *Reader) fits(c Chunk) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return true // and lost: nobody will read it
	}
	size := chunkBytes + len(c.Data)
	if len(r.queue) > 0 && r.behind+size > QueueBytes {
		return false
	}
	r.queue = append(r.queue, c)
	r.behind += size
	wake(r.filled)
	return true
}

func (r *Reader) end(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		r.ended = why
	}
	wake(r.filled)
	wake(r.taken)
}

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// contextFault is what a wait that ctx ended says.
func contextFault(op string, ctx context.Context) error {
	return fault.New(fault.KindOf(ctx.Err()), op, "", context.Cause(ctx))
}
