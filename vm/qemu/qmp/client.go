// Package qmp is a client for QEMU's control protocol. It executes commands with deadlines, also concurrently, and delivers events.
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

	writing sync.Mutex // serializes lines

	mu      sync.Mutex
	nextID  uint64
	waiting map[uint64]chan message
}

// Connect waits for QEMU's greeting and leaves negotiation mode. The client then owns conn. It
// calls onEvent for each event, in order, on its reader goroutine: onEvent must not wait for a
// command.
func Connect(ctx context.Context, conn net.Conn, onEvent func(name string, data json.RawMessage)) (*Client, error) {
	c := &Client{conn: conn, done: make(chan struct{}), waiting: map[uint64]chan message{}}
	greeted := make(chan struct{})
	go func() {
		defer close(c.done)
		c.err = fmt.Errorf("control connection ended: %w", c.read(greeted, onEvent))
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case <-greeted:
	case <-c.done:
		c.Close()
		return nil, c.failure("greeting", c.err)
	case <-ctx.Done():
		c.Close()
		return nil, c.failure("greeting", ctx.Err())
	}
	if err := c.do(ctx, "qmp_capabilities"); err != nil {
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
	reply := make(chan message, 1)
	c.mu.Lock()
	c.nextID++
	id := c.nextID
	c.waiting[id] = reply
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	if err := c.send(ctx, request{command, id}); err != nil {
		return c.failure(command, err)
	}
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

func (c *Client) send(ctx context.Context, r request) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	deadline, _ := ctx.Deadline() // Do always sets one
	if err := c.conn.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, err = c.conn.Write(append(b, '\n'))
	return err
}

// read reads QEMU's messages until the connection ends or a message is invalid.
func (c *Client) read(greeted chan<- struct{}, onEvent func(name string, data json.RawMessage)) error {
	lines := bufio.NewScanner(c.conn)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("bad message: %w", err)
		}
		switch {
		case m.Greeting != nil:
			if greeted == nil {
				return errors.New("a second greeting")
			}
			close(greeted)
			greeted = nil
		case m.Event != "":
			onEvent(m.Event, m.Data)
		case m.ID != nil:
			c.mu.Lock()
			if reply := c.waiting[*m.ID]; reply != nil {
				delete(c.waiting, *m.ID)
				reply <- m // has room for one
			}
			c.mu.Unlock()
		default:
			// Such as an error of QEMU, which could not parse a line.
			return fmt.Errorf("answer without a request: %v", m.Error)
		}
	}
	return cmp.Or(lines.Err(), io.EOF)
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
