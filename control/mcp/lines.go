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

// parting is how long a client that has said all it has to say is still answered: a script
// closes its end at once, and clients that leave wait little longer for the end.
const parting = 3 * time.Second

// lines are what a client on standard streams says, and what it is told: a message in each.
// The SDK ends with the first that is none, so it does not see those.
type lines struct {
	ctx   context.Context // when it ends, nobody waits for answers
	in    *bufio.Reader
	rest  []byte // of a line that is being read
	ended atomic.Bool

	mu       sync.Mutex // one line at a time, and what follows
	out      io.Writer
	open     int           // requests without an answer
	answered chan struct{} // it was told one
}

func newLines(ctx context.Context, in io.Reader, out io.Writer) *lines {
	return &lines{ctx: ctx, in: bufio.NewReader(in), out: out, answered: make(chan struct{}, 1)}
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

// take has a line read, or answers it where it is no message.
func (l *lines) take(line []byte) error {
	m, err := jsonrpc.DecodeMessage(line)
	r, isRequest := m.(*jsonrpc.Request)
	switch {
	case !json.Valid(line):
		return l.refuse(jsonrpc.CodeParseError, "a line is no JSON: each message is one line")
	case err != nil && line[0] != '[': // a batch is the SDK's to read
		return l.refuse(jsonrpc.CodeInvalidRequest, "a line is no message of JSON-RPC 2.0")
	case isRequest && r.IsCall() && r.Method != listen: // which is answered at its end
		l.mu.Lock()
		l.open++
		l.mu.Unlock()
	}
	l.rest = append(line, '\n')
	return nil
}

// refuse answers what has no id.
func (l *lines) refuse(code int, why string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := fmt.Fprintf(l.out, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`+"\n", code, why)
	return err
}

// part waits until all is answered, for as long as that may take.
func (l *lines) part() {
	over := time.After(parting)
	for {
		l.mu.Lock()
		open := l.open
		l.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-l.answered:
		case <-over:
			return
		case <-l.ctx.Done():
			return
		}
	}
}

// Write implements io.Writer, for the SDK: each finished line comes with one Write. What the
// client has cancelled is answered nothing.
func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var m struct{ Method string }
	if json.Unmarshal(line, &m) == nil && m.Method == "" && l.open > 0 {
		l.open--
		defer func() {
			select {
			case l.answered <- struct{}{}:
			default: // whoever waits is told already
			}
		}()
	}
	if wanted := withoutCancelled(line); len(wanted) > 0 {
		if _, err := l.out.Write(wanted); err != nil {
			return 0, err
		}
	}
	return len(line), nil
}

// Close implements io.Closer: the streams are others' to close.
func (l *lines) Close() error { return nil }
