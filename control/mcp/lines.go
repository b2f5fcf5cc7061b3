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

	"osaurus-sandbox/internal/notify"
)

// endGrace is how long calls may go on after the client has closed its end: scripts
// close it at once, and apps that quit wait little longer.
const endGrace = 3 * time.Second

// lines sits between the SDK and a client on standard streams, one message a line. It
// answers lines that the SDK would end the session for, drops answers to cancelled
// requests, and waits for open requests at the end of the input.
type lines struct {
	ctx   context.Context // no request is waited for after it has ended
	in    *bufio.Reader
	rest  []byte // of a line that the SDK has not read
	ended atomic.Bool

	mu       sync.Mutex
	out      io.Writer
	open     map[jsonrpc.ID]*openRequest
	answered chan struct{}
}

// openRequest is a request that the SDK has not answered.
type openRequest struct {
	endless   bool // it is answered when the stream ends
	cancelled bool // the protocol wants no answer
}

func newLines(ctx context.Context, in io.Reader, out io.Writer) *lines {
	return &lines{ctx: ctx, in: bufio.NewReader(in), out: out, open: map[jsonrpc.ID]*openRequest{}, answered: make(chan struct{}, 1)}
}

// Read implements io.Reader for the SDK.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			err = l.accept(line)
		} else if errors.Is(err, io.EOF) {
			l.ended.Store(true)
			l.wait()
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// accept passes a line on to the SDK, or refuses it.
func (l *lines) accept(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !json.Valid(line) {
		return l.refuse(jsonrpc.CodeParseError, "a line is not JSON: each message is one line")
	}
	m, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return l.refuse(jsonrpc.CodeInvalidRequest, "not a message of JSON-RPC 2.0; batches are not supported")
	}
	if r, ok := m.(*jsonrpc.Request); ok {
		if r.IsCall() {
			if l.open[r.ID] != nil {
				return l.refuse(jsonrpc.CodeInvalidRequest, "the id is that of a request without an answer")
			}
			l.open[r.ID] = &openRequest{endless: r.Method == listen}
		}
		if r.Method == cancelled {
			var p struct {
				RequestID any `json:"requestId"`
			}
			_ = json.Unmarshal(r.Params, &p)
			if id, err := jsonrpc.MakeID(p.RequestID); err == nil && l.open[id] != nil {
				l.open[id].cancelled = true
			}
		}
	}
	l.rest = append(line, '\n')
	return nil
}

// refuse answers a line that the SDK does not see.
func (l *lines) refuse(code int, why string) error {
	_, err := fmt.Fprintf(l.out, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`+"\n", code, why)
	return err
}

// wait returns when all requests are answered, or after endGrace.
func (l *lines) wait() {
	over := time.After(endGrace)
	for l.hasOpen() {
		select {
		case <-l.answered:
		case <-over:
			return
		case <-l.ctx.Done():
			return
		}
	}
}

// hasOpen reports whether the SDK still has to answer a request. It also answers cancelled
// ones.
func (l *lines) hasOpen() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.open {
		if !r.endless {
			return true
		}
	}
	return false
}

// Write implements io.Writer for the SDK, which writes one message at a time.
func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, err := jsonrpc.DecodeMessage(line)
	if answer, ok := m.(*jsonrpc.Response); err == nil && ok && l.open[answer.ID] != nil {
		r := l.open[answer.ID]
		delete(l.open, answer.ID)
		notify.Signal(l.answered)
		if r.cancelled {
			return len(line), nil
		}
	}
	return l.out.Write(line)
}

// Close implements io.Closer. The streams belong to the caller of Serve.
func (l *lines) Close() error { return nil }
