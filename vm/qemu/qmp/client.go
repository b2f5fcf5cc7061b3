// Package qmp is a client for QEMU's control protocol. It executes commands with deadlines, one after the other, and delivers events.
package qmp

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"osaurus-sandbox/internal/fault"
)

const (
	// callTimeout bounds a command without an earlier deadline. QEMU usually answers within
	// milliseconds; if not, it is stopped or swapped out.
	callTimeout = 5 * time.Second
	// startTimeout bounds QEMU's start until it accepts commands. It first creates devices and
	// memory, on a host that may be busy.
	startTimeout = 30 * time.Second
	// maxMessage bounds a line from QEMU. The longest known one, the list of commands, is 30 KiB.
	maxMessage = 1 << 20
)

// Client is a connection to one QEMU. Its methods are safe for concurrent use.
type Client struct {
	conn net.Conn
	done chan struct{} // the reader has ended
	err  error         // why; valid once done is closed

	turn sync.Mutex // one command at a time

	mu    sync.Mutex
	id    uint64       // of the last command; the greeting answers 0
	reply chan message // to it, or nil once it came
}

// Connect waits for QEMU's greeting and leaves negotiation mode. The client then owns conn. It
// calls onEvent for each event, in order, on its reader goroutine: onEvent must not wait for a
// command.
func Connect(ctx context.Context, conn net.Conn, onEvent func(name string, data json.RawMessage)) (*Client, error) {
	greeting := make(chan message, 1)
	c := &Client{conn: conn, done: make(chan struct{}), reply: greeting}
	go func() {
		defer close(c.done)
		c.err = fmt.Errorf("control connection ended: %w", c.read(onEvent))
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := c.await(ctx, "greeting", greeting)
	if err == nil {
		err = c.do(ctx, "qmp_capabilities")
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Do executes a command without arguments. It fails with fault.Timeout if QEMU does not answer in
// time; QEMU may still execute the command. If QEMU refuses the command, the error wraps an *Error.
func (c *Client) Do(ctx context.Context, command string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.do(ctx, command)
}

func (c *Client) do(ctx context.Context, command string) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	reply := make(chan message, 1)
	c.mu.Lock()
	c.id++
	c.reply = reply
	c.mu.Unlock()
	deadline, _ := ctx.Deadline() // Do always sets one
	err := c.conn.SetWriteDeadline(deadline)
	if err == nil {
		_, err = fmt.Fprintf(c.conn, "{\"execute\": %q, \"id\": %d}\n", command, c.id)
	}
	if err != nil {
		return c.failure(command, err)
	}
	return c.await(ctx, command, reply)
}

// await waits for the answer to a command.
func (c *Client) await(ctx context.Context, command string, reply <-chan message) error {
	select {
	case m := <-reply:
		if m.Error != nil {
			return c.failure(command, m.Error)
		}
		return nil
	case <-ctx.Done():
		return c.failure(command, ctx.Err())
	case <-c.done:
		return c.failure(command, c.err)
	}
}

// failure returns the fault for a failed command.
func (c *Client) failure(command string, err error) error {
	kind := fault.KindOf(err)
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		kind = fault.Unavailable
	}
	e := fault.New(kind, "tell qemu", command, err)
	if kind == fault.Timeout {
		return e.Advise("QEMU does not answer: it is stopped, or the host is short of memory. Kill the machine if that persists.")
	}
	return e
}

// read reads QEMU's messages until the connection ends or a message is invalid.
func (c *Client) read(onEvent func(name string, data json.RawMessage)) error {
	lines := bufio.NewScanner(c.conn)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("bad message: %w", err)
		}
		switch {
		case m.Greeting != nil:
			c.answer(0, m)
		case m.Event != "":
			onEvent(m.Event, m.Data)
		case m.ID != nil:
			c.answer(*m.ID, m)
		default:
			// Such as an error of QEMU, which could not parse a line.
			return fmt.Errorf("answer without a request: %v", m.Error)
		}
	}
	return cmp.Or(lines.Err(), io.EOF)
}

// answer gives an answer to the command that waits for it. One that comes too late is dropped.
func (c *Client) answer(id uint64, m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == c.id && c.reply != nil {
		c.reply <- m // has room for one
		c.reply = nil
	}
}

// Done returns a channel that is closed when the connection has ended and the last event was
// delivered.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close closes the connection. Waiting commands fail.
func (c *Client) Close() error {
	err := c.conn.Close()
	<-c.done
	return err
}
