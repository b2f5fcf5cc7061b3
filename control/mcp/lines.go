package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	// parting is how long a client that has said all it has to say is still answered: a script
	// closes its end at once, and clients that leave wait little longer for the end.
	parting = 3 * time.Second
	// maxOpen is how many requests a client may have without an answer, and how many messages a
	// batch may be of: all are in memory, and no app asks a hundredth of that at once. What is
	// beyond it is refused.
	maxOpen = 10_000
	// noBatches is the first protocol that has no batches, and none after it has.
	noBatches = "2025-06-18"
)

// lines are what a client on standard streams says, and what it is told: a message in each, or
// a batch of them. The SDK sees messages only, and none that it cannot read: it ends with the
// first of those, and does not answer a batch in which there is a notification.
type lines struct {
	ctx   context.Context // when it ends, nobody waits for answers
	in    *bufio.Reader
	rest  []byte // what was read and the SDK has not seen
	ended atomic.Bool

	mu       sync.Mutex // one line at a time, and what follows
	out      io.Writer
	batches  bool                 // the protocol that was asked for has them
	open     map[jsonrpc.ID]asked // requests that the SDK has not answered
	answered chan struct{}        // it has answered one
}

// asked is a request without an answer.
type asked struct {
	batch     *batch // in which it came, if any
	endless   bool   // the end of the stream is its answer: nobody waits for it
	cancelled bool   // the client is told nothing, as the protocol wants
}

// batch is requests whose answers go out in one line, when all are there.
type batch struct {
	open    int // without an answer
	answers [][]byte
}

// line is what answers the batch, if all is there and there is anything.
func (b *batch) line() []byte {
	if b.open > 0 || len(b.answers) == 0 {
		return nil
	}
	return fmt.Appendf(nil, "[%s]\n", bytes.Join(b.answers, []byte(",")))
}

func newLines(ctx context.Context, in io.Reader, out io.Writer) *lines {
	return &lines{ctx: ctx, in: bufio.NewReader(in), out: out, open: map[jsonrpc.ID]asked{}, answered: make(chan struct{}, 1)}
}

// Read implements io.Reader, for the SDK.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.in.ReadBytes('\n')
		switch line = bytes.TrimSpace(line); {
		case len(line) == 0 && err == nil:
		case len(line) == 0:
			if errors.Is(err, io.EOF) {
				l.ended.Store(true)
				l.part()
			}
			return 0, err
		default:
			if err := l.take(line); err != nil {
				return 0, err
			}
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// take has a line read, and answers what the SDK must not see.
func (l *lines) take(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var messages []json.RawMessage
	switch {
	case !json.Valid(line):
		return l.tell(refused(jsonrpc.ID{}, jsonrpc.CodeParseError, "a line is no JSON: each message is one line"))
	case line[0] != '[':
		return l.tell(l.accept(line, nil))
	case !l.batches:
		return l.tell(refused(jsonrpc.ID{}, jsonrpc.CodeInvalidRequest, "this protocol has no batches: each message is one line"))
	}
	if err := json.Unmarshal(line, &messages); err != nil || len(messages) == 0 || len(messages) > maxOpen {
		return l.tell(refused(jsonrpc.ID{}, jsonrpc.CodeInvalidRequest, fmt.Sprintf("a batch is of 1 to %d messages", maxOpen)))
	}
	b := &batch{}
	for _, m := range messages {
		if refusal := l.accept(m, b); refusal != nil {
			b.answers = append(b.answers, bytes.TrimSpace(refusal))
		}
	}
	return l.tell(b.line())
}

// accept has the SDK see a message, or returns why not, as a line.
func (l *lines) accept(message []byte, b *batch) (refusal []byte) {
	m, err := jsonrpc.DecodeMessage(message)
	if err != nil {
		return refused(jsonrpc.ID{}, jsonrpc.CodeInvalidRequest, "it is no message of JSON-RPC 2.0")
	}
	if r, ok := m.(*jsonrpc.Request); ok {
		switch r.Method {
		case initialize:
			version, told := parameter(r, "protocolVersion").(string)
			l.batches = told && version < noBatches
		case cancelled:
			id, err := jsonrpc.MakeID(parameter(r, "requestId"))
			if a, there := l.open[id]; err == nil && there {
				a.cancelled = true
				l.open[id] = a // until the SDK answers: it takes no request of that id before
			}
		}
		if r.IsCall() {
			if _, there := l.open[r.ID]; there {
				return refused(jsonrpc.ID{}, jsonrpc.CodeInvalidRequest, "a request has the id of another that has no answer yet")
			}
			if len(l.open) == maxOpen {
				return refused(r.ID, jsonrpc.CodeInternalError, fmt.Sprintf("%d requests have no answer yet: wait for some", maxOpen))
			}
			l.open[r.ID] = asked{batch: b, endless: r.Method == listen}
			if b != nil {
				b.open++
			}
		}
	}
	l.rest = append(append(l.rest, message...), '\n')
	return nil
}

// parameter is a parameter of a request, nil if it has none of that name.
func parameter(r *jsonrpc.Request, name string) any {
	var all map[string]any // for the SDK too, a and A are two names
	_ = json.Unmarshal(r.Params, &all)
	return all[name]
}

// refused is a line that answers what the SDK does not see.
func refused(id jsonrpc.ID, code int, why string) []byte {
	named, err := json.Marshal(id.Raw())
	if err != nil {
		named = []byte("null") // cannot be: an id is a text, a number or nothing
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`+"\n", named, code, why)
}

// tell writes a line, if there is one.
func (l *lines) tell(line []byte) error {
	if len(line) == 0 {
		return nil
	}
	_, err := l.out.Write(line)
	return err
}

// part waits until all is answered, for as long as that may take.
func (l *lines) part() {
	over := time.After(parting)
	for l.owes() {
		select {
		case <-l.answered:
		case <-over:
			return
		case <-l.ctx.Done():
			return
		}
	}
}

// owes reports whether there are requests that will be answered. A cancelled one counts: the
// rest of its batch waits for it, and the SDK ends no sooner.
func (l *lines) owes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.open {
		if !a.endless {
			return true
		}
	}
	return false
}

// Write implements io.Writer, for the SDK: each message comes with one Write, and ends its line.
func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := line
	if m, err := jsonrpc.DecodeMessage(line); err == nil {
		if answer, ok := m.(*jsonrpc.Response); ok {
			told = l.settle(answer.ID, line)
		}
	}
	if err := l.tell(told); err != nil {
		return 0, err
	}
	return len(line), nil
}

// settle returns what the client is told when the SDK answers a request.
func (l *lines) settle(id jsonrpc.ID, answer []byte) []byte {
	a := l.open[id]
	delete(l.open, id)
	select {
	case l.answered <- struct{}{}:
	default: // whoever waits is told already
	}
	if a.cancelled {
		answer = nil
	}
	if a.batch == nil {
		return answer
	}
	a.batch.open--
	if answer != nil {
		a.batch.answers = append(a.batch.answers, bytes.Clone(bytes.TrimSpace(answer)))
	}
	return a.batch.line()
}

// Close implements io.Closer: the streams are others' to close.
func (l *lines) Close() error { return nil }
